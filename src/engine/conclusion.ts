import type { PlanRule } from '../policy/plan.ts'
import type { Allowed, RateLimit, Refused, Rejected } from './decision.ts'
import type { Run } from './run.ts'
import { type Objection, worstObjection } from './verdict.ts'

export const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }
export const REPEATED_FIELD: Refused = { action: 'refuse', reason: 'repeated_descriptor' }
export const NO_STORE: Refused = { action: 'refuse', reason: 'store_unavailable' }

/** The decision of a run that no enforcing rule objects to. */
export function allowed(run: Run): Allowed {
  const wouldReject = run.wouldRejects[0]
  const rule = wouldReject?.rule ?? run.limit?.rule
  return conclude(run, 'allow', wouldReject?.reason ?? 'all_rules_passed', run.limit, rule, undefined) as Allowed
}

/** The decision of a run whose group at hand does not fit. */
export function rejected(run: Run): Rejected {
  const objection = worstObjection(run.group)
  const { rule, reason, limitText, retryAfterMs } = objection
  const limit = { rule, limitText, remaining: 0, resetMs: retryAfterMs }
  return conclude(run, 'reject', reason, limit, rule, objection) as Rejected
}

/** One object of one shape, whatever was decided. */
function conclude(
  run: Run,
  action: 'allow' | 'reject',
  reason: Allowed['reason'],
  limit: RateLimit | undefined,
  rule: PlanRule | undefined,
  objection: Objection | undefined,
): Allowed | Rejected {
  const decision = {
    action,
    reason,
    limit,
    canRetry: objection === undefined || objection.canRetry,
    requested: objection === undefined ? 0 : objection.requested,
    available: objection === undefined ? 0 : objection.available,
    reservation: run.holds.length === 0 ? undefined : { holds: run.holds },
    policy: rule?.policy,
    rule,
    wouldRejects: run.wouldRejects,
    missingKeys: run.missingKeys,
    matchedPolicies: run.matches.count,
    descriptors: run.keyedBy(rule),
  }
  return decision as Allowed | Rejected
}
