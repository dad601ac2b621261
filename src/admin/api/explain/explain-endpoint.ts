import type { ExplainRequest } from '../../../decide/request-explanation.ts'
import type { CallerDigest } from '../../../engine/caller-digest.ts'
import type { ApiRoute } from '../api-route.ts'
import { SlicedTexts } from '../sliced-texts.ts'
import { readAskedRequest } from './asked-request.ts'
import { explanationSteps } from './explanation-json.ts'

/** POST explain: what a request would get now, and why. `callerDigest` digests credentials. */
export function explainEndpoint(explain: ExplainRequest, callerDigest: CallerDigest): ApiRoute {
  const texts = new SlicedTexts()
  return {
    method: 'POST',
    path: 'explain',
    handle: async ({ body }) => {
      const explanation = await explain(readAskedRequest(body))
      return { status: 200, text: await texts.make(explanationSteps(explanation, callerDigest)) }
    },
  }
}
