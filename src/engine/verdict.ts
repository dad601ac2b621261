import { NEVER, untilFullMs } from '../limiter/bucket.ts'
import { untilMidnightMs } from '../limiter/day.ts'
import type { Limit } from '../limiter/limit.ts'
import type { LimitReason, PlanRule } from '../policy/plan.ts'
import type { RateLimit } from './decision.ts'
import type { Run } from './run.ts'

export interface Objection {
  readonly rule: PlanRule
  readonly reason: LimitReason
  readonly limitText: string
  readonly retryAfterMs: number
  readonly canRetry: boolean
  readonly requested: number
  readonly available: number
}

/** The rule that describes a reject: the one with the longest wait, the first in the bundle on ties. */
export function worstObjection(run: Run): Objection {
  let worst = 0
  let longestMs = -1
  for (let i = 0; i < run.ruleCount; i++) {
    const waitMs = ruleWaitMs(run, i)
    if (waitMs > longestMs) {
      longestMs = waitMs
      worst = i
    }
  }
  const rule = run.rules[worst]!
  const firstRow = run.firstRows[worst]!
  const row = firstRow + rule.counters.findIndex((_, c) => run.charges.waitsMs[firstRow + c]! > 0)
  const objecting = rule.counters[row - firstRow]!
  const retryAfterMs = Math.max(...rule.counters.map((counter, c) => knownWaitMs(run, firstRow + c, counter.limit)))
  return {
    rule,
    reason: objecting.reason,
    limitText: objecting.limitText,
    retryAfterMs,
    canRetry: longestMs < NEVER,
    requested: run.charges.costs[row]!,
    available: wholeTokens(run.charges.levels[row]!),
  }
}

/** How the most constrained rule stands: the one with the smallest share left, the first in the bundle on ties. */
export function mostConstrained(run: Run): RateLimit | undefined {
  if (run.ruleCount === 0) return undefined
  const { levels } = run.charges
  let scarcest = run.rules[0]!
  let counter = scarcest.counters[0]!
  let level = levels[0]!
  for (let i = 0; i < run.ruleCount; i++) {
    const { counters } = run.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const other = levels[run.firstRows[i]! + c]!
      // level / size < other level / other size, without the divisions
      if (other * counter.size < level * counters[c]!.size) {
        scarcest = run.rules[i]!
        counter = counters[c]!
        level = other
      }
    }
  }
  return { rule: scarcest, limitText: counter.limitText, remaining: wholeTokens(level), resetMs: resetMs(counter.limit, level, run.wallMs) }
}

function ruleWaitMs(run: Run, index: number): number {
  const firstRow = run.firstRows[index]!
  let longestMs = 0
  for (let c = 0; c < run.rules[index]!.counters.length; c++) longestMs = Math.max(longestMs, run.charges.waitsMs[firstRow + c]!)
  return longestMs
}

/** Where no wait would help, the time until the limit is whole again. */
function knownWaitMs(run: Run, row: number, limit: Limit): number {
  const waitMs = run.charges.waitsMs[row]!
  return waitMs === NEVER ? resetMs(limit, run.charges.levels[row]!, run.wallMs) : waitMs
}

/** Settlements may leave a debt; nobody is told of less than nothing. */
function wholeTokens(level: number): number {
  return Math.max(0, Math.floor(level))
}

function resetMs(limit: Limit, level: number, wallMs: number): number {
  if (limit.kind === 'bucket') return untilFullMs(level, limit.tokensPerMs, limit.burst)
  return level < limit.tokensPerDay ? untilMidnightMs(wallMs) : 0
}
