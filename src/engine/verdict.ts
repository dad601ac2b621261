import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { Limit } from '../limiter/limit.ts'
import { NEVER } from '../limiter/record.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { LimitReason, PlanCounter } from '../policy/plan-counter.ts'
import type { RateLimit } from './decision.ts'
import type { Group } from './group.ts'
import { isAwaited, type OpenReservations } from './open-reservations.ts'
import { bundleRule } from './variant.ts'

export interface Rejection {
  readonly rule: PlanRule
  /** Of the rule's counters in the group. */
  readonly firstRow: number
  readonly reason: LimitReason
  readonly limitText: string
  readonly retryAfterMs: number
  readonly canRetry: boolean
  readonly requested: number
  readonly available: number
  readonly awaitsSettlement: boolean
}

/**
 * Where only what requests in flight have reserved keeps a window from covering the request, it waits until they are over, and not for the end
 * of the window. To be called before the rule that describes the reject is chosen.
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
      const reserved = open.sumOf(counter, values, valuesFrom[row]!, valuesFrom[row + 1]!, wallMs)
      if (reserved <= 0 || levels[row]! + reserved < costs[row]!) continue
      waitsMs[row] = Math.min(waitsMs[row]!, open.waitMs(counter))
      group.awaiting.push(row)
    }
  }
}

/** The rule that describes a reject: the one with the longest wait, the first in the bundle on ties. */
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

/** The rule at `index` of the group, which does not pass. Rejects come in floods: this allocates nothing but its result. */
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
    retryAfterMs,
    canRetry: ruleWaitMs(group, index) < NEVER,
    requested: group.charges.costs[row]! / rejecting.unit,
    available: leftOf(group.results.levels[row]!, rejecting),
    awaitsSettlement: group.awaiting.includes(row),
  }
}

/** The state of the most constrained rule: the one with the smallest share left, the first in the bundle on ties. */
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
      // level / size < other level / other size, without the divisions
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
    remaining: shownLevel(level, counter),
    resetMs: algorithmOf(counter.limit).resetMs(counter.limit, level, wallMs),
  }
}

/** How long until the rule at `index` of the group would pass. */
export function ruleWaitMs(group: Group, index: number): number {
  const firstRow = group.firstRows[index]!
  let longestMs = 0
  for (let c = 0; c < group.rules[index]!.counters.length; c++) longestMs = Math.max(longestMs, group.results.waitsMs[firstRow + c]!)
  return longestMs
}

/** Where no wait would help, the time until the limit is full again. */
function knownWaitMs({ results }: Group, row: number, limit: Limit): number {
  const waitMs = results.waitsMs[row]!
  return waitMs === NEVER ? algorithmOf(limit).resetMs(limit, results.levels[row]!, results.wallMs) : waitMs
}

/** What a message says is left: whole tokens, and money to its last decimal, because a request may cost less than a hundredth. */
function leftOf(level: number, counter: PlanCounter): number {
  return counter.unit === 1 ? shownLevel(level, counter) : Math.max(0, level / counter.unit)
}

/** In whole units of the counter. Settlements may leave a debt, which is reported as 0. */
export function shownLevel(level: number, { unit }: PlanCounter): number {
  return Math.max(0, Math.floor(unit === 1 ? level : level / unit))
}
