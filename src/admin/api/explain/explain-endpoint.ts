import type { ExplainRequest } from '../../../decide/request-explanation.ts'
import type { NameOf } from '../../../engine/name-of.ts'
import type { ApiRoute } from '../api-route.ts'
import { SlicedTexts } from '../sliced-texts.ts'
import { readAskedRequest } from './asked-request.ts'
import { explanationSteps } from './explanation-json.ts'

/** POST explain: what a request would get now, and why. `nameOf` digests credentials. */
export function explainEndpoint(explain: ExplainRequest, nameOf: NameOf): ApiRoute {
  const texts = new SlicedTexts()
  return {
    method: 'POST',
    path: 'explain',
    handle: async ({ body }) => {
      const explanation = await explain(readAskedRequest(body))
      return { status: 200, text: await texts.make(explanationSteps(explanation, nameOf)) }
    },
  }
}
