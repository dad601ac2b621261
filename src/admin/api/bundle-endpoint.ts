import type { ApiRoute } from './api-route.ts'
import { readQuery } from './query.ts'

/** GET bundle: where the active bundle came from, and what it changed. `response` is its JSON, made where no request waits for it. */
export function bundleEndpoint(response: () => Promise<string>): ApiRoute {
  return {
    method: 'GET',
    path: 'bundle',
    handle: async ({ query }) => {
      readQuery(query, [])
      return { status: 200, text: await response() }
    },
  }
}
