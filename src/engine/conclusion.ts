import type { PlanRule } from '../policy/plan.ts'
import type { Allowed, Descriptor, Group, RateLimit, Refused, Rejected, WouldReject } from './decision.ts'
import type { ReservedCharge } from './reservation.ts'
import { longestRejection, type Rejection } from './verdict.ts'

export const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }
export const REPEATED_FIELD: Refused = { action: 'refuse', reason: 'repeated_descriptor' }
export const NO_STORE: Refused = { action: 'refuse', reason: 'store_unavailable' }

/** The state of a decision at its end. */
export interface Concluding {
  /** The charges that were taken or do not fit. */
  readonly group: Group
  readonly limit: RateLimit | undefined
  readonly wouldRejects: readonly WouldReject[]
  readonly missingKeys: readonly string[]
  readonly reserved: readonly ReservedCharge[]
  readonly holds: readonly ReservedCharge[]
  readonly matches: { readonly count: number }
  readonly isShadowed: boolean
  /** Returns the descriptors to show, beginning with the deciding rule's. */
  keyedBy(decidingRule: PlanRule | undefined): readonly Descriptor[]
}

/** Returns the decision for a run that no enforcing rule rejects. */
export function allowed(run: Concluding): Allowed {
  const wouldReject = run.wouldRejects[0]
  const rule = wouldReject?.rule ?? run.limit?.rule
  return conclude(run, 'allow', wouldReject?.reason ?? 'all_rules_passed', run.limit, rule, undefined) as Allowed
}

/** Returns the decision for a run whose current group does not fit. */
export function rejected(run: Concluding, rejection = longestRejection(run.group)): Rejected {
  const { rule, reason, limitText, retryAfterMs } = rejection
  const limit = { rule, limitText, remaining: 0, resetMs: retryAfterMs }
  return conclude(run, 'reject', reason, limit, rule, rejection) as Rejected
}

/** Returns the decision for a run that a block covers. Nothing else about the request matters, and no wait would help. */
export function blocked(run: Concluding, rule: PlanRule): Rejected {
  return conclude(run, 'reject', 'blocked', undefined, rule, NO_ROOM) as Rejected
}

const NO_ROOM = { canRetry: false, requested: 0, available: 0, awaitsSettlement: false }

/** All decisions are built here so that they have one object shape. */
function conclude(
  run: Concluding,
  action: 'allow' | 'reject',
  reason: Allowed['reason'],
  limit: RateLimit | undefined,
  rule: PlanRule | undefined,
  rejection: Pick<Rejection, 'canRetry' | 'requested' | 'available' | 'awaitsSettlement'> | undefined,
): Allowed | Rejected {
  const decision = {
    action,
    reason,
    limit,
    canRetry: rejection === undefined || rejection.canRetry,
    requested: rejection === undefined ? 0 : rejection.requested,
    available: rejection === undefined ? 0 : rejection.available,
    awaitsSettlement: rejection?.awaitsSettlement === true,
    reservation: run.reserved.length + run.holds.length === 0 ? undefined : { charges: run.reserved, holds: run.holds },
    policy: rule?.policy,
    rule,
    wouldRejects: run.wouldRejects,
    missingKeys: run.missingKeys,
    matchedPolicies: run.matches.count,
    isShadowed: run.isShadowed,
    descriptors: run.keyedBy(rule),
  }
  return decision as Allowed | Rejected
}
