import { assetText } from '../../asset.ts'
import type { ApiRoute } from './api-route.ts'
import { readQuery } from './query.ts'

/** GET openapi.json: the description of this API. */
export function openapiEndpoint(): ApiRoute {
  let text: string | undefined
  return {
    method: 'GET',
    path: 'openapi.json',
    handle: ({ query }) => {
      readQuery(query, [])
      text ??= assetText('openapi/admin.json')
      return { status: 200, text }
    },
  }
}
