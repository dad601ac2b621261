import type { Logger } from 'pino'
import type { CounterName, Inspection } from '../../../engine/inspection.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { findRule } from '../find-rule.ts'
import { refuseUnknown } from '../json-body.ts'
import { readReason } from '../reason.ts'
import type { ResetRequest } from '../types.ts'
import { askedByBody, counterName } from './counter-name.ts'
import type { CountersParts } from './counters-endpoints.ts'
import { inspectionResponse } from './inspection-response.ts'

export interface ResetParts extends Pick<CountersParts, 'plan' | 'nameOf'> {
  /** Returns their state after it. Rejects with an ApiError where it was not done. */
  readonly reset: (name: CounterName) => Promise<Inspection | UnknownReset>
  /** Returns false where it could not be saved that they were reset. */
  readonly save: () => Promise<boolean>
  readonly logger: Logger
}

/** Why nobody knows whether it was done. */
export interface UnknownReset {
  readonly unknown: string
}

/** POST counters/reset: makes a rule's counters full for one caller, as if nothing had ever been taken. */
export function resetEndpoint({ plan, reset, save, nameOf, logger }: ResetParts): ApiRoute {
  return {
    method: 'POST',
    path: 'counters/reset',
    handle: async ({ body, actor }) => {
      refuseUnknown<ResetRequest>(body, ['policy', 'rule', 'values', 'reason'])
      const reason = readReason(body['reason'])
      const asked = askedByBody(body)
      const rule = findRule(plan(), asked)
      const name = counterName(rule, asked)
      if (rule.counters.length === 0)
        throw new ApiError('bad_request', `a rule with algorithm ${rule.source.algorithm} has no counters, so there is nothing to reset`)
      const outcome = await reset(name)
      const fields = { event: 'counter_reset', actor, reason, policy: name.policy, rule: name.rule }
      if ('unknown' in outcome) {
        logger.warn({ ...fields, detail: outcome.unknown }, 'an operator reset counters; it is not known whether it was done everywhere')
        throw new ApiError('store_unavailable', `it may have been done: ${outcome.unknown}. Reset again: that is safe.`)
      }
      const isDone = outcome.ok || outcome.error === 'store_unavailable'
      if (!isDone) return inspectionResponse(outcome, nameOf)
      logger.info(fields, 'an operator reset counters')
      if (!(await save()))
        throw new ApiError('store_unavailable', 'the counters are reset, but the state file could not be written: a crash could undo it')
      return inspectionResponse(outcome, nameOf)
    },
  }
}
