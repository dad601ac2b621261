import type { Logger } from 'pino'
import type { CounterName, Inspection } from '../../../engine/inspection.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { refuseUnknown } from '../json-body.ts'
import { readReason } from '../reason.ts'
import { askedByBody, counterName, findRule } from './counter-name.ts'
import type { CountersParts } from './counters-endpoints.ts'
import { inspectionResponse } from './inspection-response.ts'

export interface ResetParts extends Pick<CountersParts, 'plan' | 'nameOf'> {
  /** Returns their state after it; 'unknown': nobody knows whether it was done. Rejects with an ApiError where it was not. */
  readonly reset: (name: CounterName) => Promise<Inspection | 'unknown'>
  /** Returns false where it could not be saved that they were reset. */
  readonly save: () => Promise<boolean>
  readonly logger: Logger
}

/** POST counters/reset: makes a rule's counters full for one caller, as if nothing had ever been taken. */
export function resetEndpoint({ plan, reset, save, nameOf, logger }: ResetParts): ApiRoute {
  return {
    method: 'POST',
    path: 'counters/reset',
    handle: async ({ body, actor }) => {
      refuseUnknown(body, ['policy', 'rule', 'values', 'reason'])
      const reason = readReason(body['reason'])
      const asked = askedByBody(body)
      const rule = findRule(plan(), asked)
      const name = counterName(rule, asked)
      if (rule.counters.length === 0)
        throw new ApiError('bad_request', `a rule with algorithm ${rule.source.algorithm} has no counters, so there is nothing to reset`)
      const outcome = await reset(name)
      if (outcome !== 'unknown' && !outcome.ok && outcome.error !== 'store_unavailable') return inspectionResponse(outcome, nameOf)
      const fields = { event: 'counter_reset', actor, reason, policy: name.policy, rule: name.rule }
      if (outcome === 'unknown') {
        logger.warn({ ...fields, outcome }, 'an operator reset counters; whether Redis did it is not known')
        throw new ApiError('store_unavailable', 'Redis did not confirm the reset, and may have done it: reset again, which is safe')
      }
      logger.info(fields, 'an operator reset counters')
      if (!(await save()))
        throw new ApiError('store_unavailable', 'the counters are reset, but the state file could not be written: a crash could undo it')
      return inspectionResponse(outcome, nameOf)
    },
  }
}
