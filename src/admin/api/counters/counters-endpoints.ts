import type { CounterName, Inspection } from '../../../engine/inspection.ts'
import type { NameOf } from '../../../engine/name-of.ts'
import type { Plan } from '../../../policy/plan.ts'
import type { ApiResponse, ApiRoute } from '../api-route.ts'
import { findRule } from '../find-rule.ts'
import { refuseUnknown } from '../json-body.ts'
import type { CountersRequest } from '../types.ts'
import { type AskedCounters, askedByBody, askedByQuery, counterName, refuseCredentials } from './counter-name.ts'
import { inspectionResponse } from './inspection-response.ts'

export interface CountersParts {
  readonly plan: () => Plan | undefined
  readonly inspect: (name: CounterName) => Inspection | Promise<Inspection>
  /** Digests credentials. */
  readonly nameOf: NameOf
}

/** GET counters and POST counters: what a caller has left of one rule. The second is for credentials, which no URL may have. */
export function* countersEndpoints({ plan, inspect, nameOf }: CountersParts): Generator<ApiRoute> {
  const respond = async (asked: AskedCounters): Promise<ApiResponse> => {
    return inspectionResponse(await inspect(counterName(findRule(plan(), asked), asked)), nameOf)
  }
  yield {
    method: 'GET',
    path: 'counters',
    handle: async ({ query }) => {
      const asked = askedByQuery(query)
      refuseCredentials(findRule(plan(), asked), asked)
      return respond(asked)
    },
  }
  yield {
    method: 'POST',
    path: 'counters',
    handle: async ({ body }) => {
      refuseUnknown<CountersRequest>(body, ['policy', 'rule', 'values'])
      return respond(askedByBody(body))
    },
  }
}
