import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { type Limit, NEVER } from '../limiter/limit.ts'
import type { LimitReason, PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { CallerVerdict, UnknownCaller } from '../request/caller.ts'
import type { Allowed, CallerReason, Descriptor, Group, RateLimit, Refused, Rejected, WouldReject } from './decision.ts'
import { isAwaited, type OpenReservations } from './open-reservations.ts'
import { bundleRule } from './overrides/rule-overrides.ts'
import type { ReservedCharge } from './reservation.ts'
import type { Wait } from './waiting-lines.ts'

export const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }
export const REPEATED_FIELD: Refused = { action: 'refuse', reason: 'repeated_descriptor' }
export const UNCOUNTED_SOCKET: Refused = { action: 'refuse', reason: 'websocket_not_counted' }
export const NO_STORE: Refused = { action: 'refuse', reason: 'store_unavailable' }

/** Returns the refusal of a request whose caller is not known. */
export function unknownCaller(caller: UnknownCaller): Refused {
  return { action: 'refuse', reason: callerReason(caller), caller }
}

/** A client learns whether its credential or the service is at fault, and nothing else about the credential. */
export function callerReason({ problem }: UnknownCaller): CallerReason {
  if (problem === 'keys_unavailable') return 'caller_keys_unavailable'
  return problem === 'busy' ? 'caller_check_busy' : 'unknown_caller'
}

/** The state of a decision at its end. */
export interface Concluding {
  /** The charges that were taken or do not fit. */
  readonly group: Group
  readonly limit: RateLimit | undefined
  readonly wouldRejects: readonly WouldReject[]
  readonly missingKeys: readonly string[]
  readonly reserved: readonly ReservedCharge[]
  readonly holds: readonly ReservedCharge[]
  readonly matches: { readonly list: readonly PlanPolicy[] }
  readonly isShadowed: boolean
  readonly caller: CallerVerdict | undefined
  readonly wouldRefuse: CallerReason | undefined
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
export function rejected(run: Concluding, rejection = longestRejection(run.group), wait?: Wait, isWaiting = false): Rejected {
  const { rule, reason, limitText, quotaText, retryAfterMs } = rejection
  const limit = { rule, limitText, quotaText, remaining: 0, resetMs: retryAfterMs }
  return conclude(run, 'reject', reason, limit, rule, rejection, wait, isWaiting) as Rejected
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
  wait?: Wait,
  isWaiting = false,
): Allowed | Rejected {
  const coveredBy = run.matches.list
  const decision = {
    action,
    reason,
    limit,
    canRetry: rejection === undefined || rejection.canRetry,
    requested: rejection === undefined ? 0 : rejection.requested,
    available: rejection === undefined ? 0 : rejection.available,
    awaitsSettlement: rejection?.awaitsSettlement === true,
    wait,
    isWaiting,
    reservation: run.reserved.length + run.holds.length === 0 ? undefined : { charges: run.reserved, holds: run.holds },
    policy: rule?.policy,
    rule,
    wouldRejects: run.wouldRejects,
    missingKeys: run.missingKeys,
    matchedPolicies: coveredBy.length,
    coveredBy,
    isShadowed: run.isShadowed,
    caller: run.caller,
    wouldRefuse: run.wouldRefuse,
    descriptors: run.keyedBy(rule),
  }
  return decision as Allowed | Rejected
}

export interface Rejection {
  readonly rule: PlanRule
  /** Row in the group of the rule's first counter. */
  readonly firstRow: number
  readonly reason: LimitReason
  readonly limitText: string
  readonly quotaText: string | undefined
  readonly retryAfterMs: number
  readonly canRetry: boolean
  readonly requested: number
  readonly available: number
  readonly awaitsSettlement: boolean
}

/**
 * Shortens the wait of rows that would pass but for what requests in flight have reserved in the window, or will have reserved that wait ahead: they wait for
 * those requests rather than for the end of the window. Must be called before choosing the rule that describes the reject.
 */
export function awaitSettlements(group: Group, open: OpenReservations): void {
  const { charges, results } = group
  const { values, valuesFrom, costs } = charges
  const { levels, waitsMs, wallMs } = results
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters } = group.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const row = group.firstRows[i]! + c
      const counter = counters[c]!
      if (waitsMs[row] === 0 || waitsMs[row] === NEVER || !isAwaited(counter)) continue
      const reserved = Math.max(0, open.sumOf(counter, values, valuesFrom[row]!, valuesFrom[row + 1]!, wallMs))
      // If nothing is reserved, requests that wait ahead are in the way, and they will give back what they do not use.
      if (levels[row]! + reserved < costs[row]!) continue
      waitsMs[row] = Math.min(waitsMs[row]!, open.waitMs(counter))
      group.awaiting.push(row)
    }
  }
}

/** Returns the rejection by the rule with the longest wait, or the first of them in bundle order. */
export function longestRejection(group: Group): Rejection {
  let worst = 0
  let longestMs = -1
  for (let i = 0; i < group.ruleCount; i++) {
    const waitMs = ruleWaitMs(group, i)
    if (waitMs > longestMs) {
      longestMs = waitMs
      worst = i
    }
  }
  return rejectionBy(group, worst)
}

/** Describes the rejection by the rule at `index` of the group, which does not pass. Rejects come in floods, so this allocates nothing but its result. */
export function rejectionBy(group: Group, index: number): Rejection {
  const rule = group.rules[index]!
  const { counters } = rule
  const { waitsMs } = group.results
  const firstRow = group.firstRows[index]!
  const lastRow = firstRow + counters.length - 1
  let row = firstRow
  while (row < lastRow && waitsMs[row] === 0) row++
  const rejecting = counters[row - firstRow]!
  let retryAfterMs = 0
  for (let c = 0; c < counters.length; c++) retryAfterMs = Math.max(retryAfterMs, knownWaitMs(group, firstRow + c, counters[c]!.limit))
  return {
    rule: bundleRule(rule),
    firstRow,
    reason: rejecting.reason,
    limitText: rejecting.limitText,
    quotaText: rejecting.quotaText,
    retryAfterMs,
    canRetry: ruleWaitMs(group, index) < NEVER,
    requested: group.charges.costs[row]! / rejecting.unit,
    available: leftOf(group.results.levels[row]!, rejecting),
    awaitsSettlement: group.awaiting.includes(row),
  }
}

/** Returns the state of the most constrained rule: the one with the smallest remaining share, or the first of them in bundle order. */
export function mostConstrained(group: Group): RateLimit | undefined {
  if (group.ruleCount === 0) return undefined
  const { levels, wallMs } = group.results
  let scarcest = group.rules[0]!
  let counter = scarcest.counters[0]!
  let level = levels[0]!
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters } = group.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const other = levels[group.firstRows[i]! + c]!
      // This compares other / its size < level / size without the divisions.
      if (other * counter.size < level * counters[c]!.size) {
        scarcest = group.rules[i]!
        counter = counters[c]!
        level = other
      }
    }
  }
  return {
    rule: bundleRule(scarcest),
    limitText: counter.limitText,
    quotaText: counter.quotaText,
    remaining: shownLevel(level, counter),
    resetMs: algorithmOf(counter.limit).resetMs(counter.limit, level, wallMs),
  }
}

/** Returns how long until the rule at `index` of the group would pass. */
export function ruleWaitMs(group: Group, index: number): number {
  const firstRow = group.firstRows[index]!
  let longestMs = 0
  for (let c = 0; c < group.rules[index]!.counters.length; c++) longestMs = Math.max(longestMs, group.results.waitsMs[firstRow + c]!)
  return longestMs
}

/** Returns the wait or, if no wait would help, the time until the limit is full again. */
function knownWaitMs({ results }: Group, row: number, limit: Limit): number {
  const waitMs = results.waitsMs[row]!
  return waitMs === NEVER ? algorithmOf(limit).resetMs(limit, results.levels[row]!, results.wallMs) : waitMs
}

/** Returns the remainder for a message: whole tokens, but money with all its decimals, because a request may cost less than a hundredth. */
function leftOf(level: number, counter: PlanCounter): number {
  return counter.unit === 1 ? shownLevel(level, counter) : Math.max(0, level / counter.unit)
}

/** Rounds down to whole units of the counter. Settlements may leave a debt, which is reported as 0. */
export function shownLevel(level: number, { unit }: PlanCounter): number {
  return Math.max(0, Math.floor(unit === 1 ? level : level / unit))
}
