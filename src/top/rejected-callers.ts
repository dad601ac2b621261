import type { CallerDigest } from '../engine/decide-options.ts'
import type { PlanRule } from '../policy/plan.ts'
import { type CallerIds, type KnownRule, type PackedTexts, type RuleName, ValueTexts } from './caller-ids.ts'
import { StreamSummary } from './stream-summary.ts'

/** Rejects are counted in periods of this length, which begin at the same time in all threads. The current period and the previous one are kept. */
export const PERIOD_MS = 5 * 60_000
/** How many callers are counted in a period. */
const MAX_CALLERS = 1000

/** The rejects of one period in one thread, with a row for each caller. It is small and quick to make, because the thread has requests to decide. */
export interface RejectedPeriod {
  readonly number: number
  /** The most by which a count can be too high, and the most rejects that an uncounted caller can have had. */
  readonly maxError: number
  /** 64 bits that identify the caller in all threads. */
  readonly lows: Int32Array
  readonly highs: Int32Array
  readonly counts: Float64Array
  readonly rules: readonly RuleName[]
  /** Index into `rules` for each caller. */
  readonly ruleIndexes: Uint16Array
  readonly texts: PackedTexts
}

/** The callers that this thread rejects most. */
export class RejectedCallers {
  readonly #ids: CallerIds
  #current: Period
  #previous: Period

  constructor(ids: CallerIds, callerDigest: CallerDigest) {
    this.#ids = ids
    this.#current = newPeriod(callerDigest)
    this.#previous = newPeriod(callerDigest)
  }

  add(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void {
    if (nowMs >= this.#current.endMs) this.turnTo(nowMs)
    const { summary, rules, texts } = this.#current
    const known = this.#ids.identify(rule, values, from)
    const slot = summary.add(this.#ids.low, this.#ids.high)
    if (!summary.isNew) return
    rules[slot] = known
    texts.write(slot, known, values, from)
  }

  /** Begins the period of this time if it is a new one, and forgets periods that are too old. */
  turnTo(nowMs: number): void {
    const number = periodAt(nowMs)
    if (number <= this.#current.number) return
    const oldest = this.#previous
    forget(oldest)
    if (number > this.#current.number + 1) forget(this.#current)
    this.#previous = this.#current
    this.#current = oldest
    oldest.number = number
    oldest.endMs = (number + 1) * PERIOD_MS
  }

  read(nowMs: number): RejectedPeriod[] {
    this.turnTo(nowMs)
    return [this.#previous, this.#current].filter(({ summary }) => summary.length > 0).map(readPeriod)
  }
}

export function periodAt(nowMs: number): number {
  return Math.floor(nowMs / PERIOD_MS)
}

interface Period {
  number: number
  endMs: number
  readonly summary: StreamSummary
  /** Indexed by slot. */
  readonly rules: KnownRule[]
  readonly texts: ValueTexts
}

function newPeriod(callerDigest: CallerDigest): Period {
  const [summary, texts] = [new StreamSummary(MAX_CALLERS), new ValueTexts(MAX_CALLERS, callerDigest)]
  return { number: Number.NEGATIVE_INFINITY, endMs: Number.NEGATIVE_INFINITY, summary, rules: [], texts }
}

function forget({ summary, rules, texts }: Period): void {
  if (summary.length === 0) return
  summary.clear()
  rules.length = 0
  texts.clear()
}

function readPeriod({ number, summary, rules, texts }: Period): RejectedPeriod {
  const { length } = summary
  const indexes = new Map<KnownRule, number>()
  const [counts, ruleIndexes] = [new Float64Array(length), new Uint16Array(length)]
  for (const [slot, rule] of rules.entries()) {
    if (!indexes.has(rule)) indexes.set(rule, indexes.size)
    ruleIndexes[slot] = indexes.get(rule)!
    counts[slot] = summary.countAt(slot)
  }
  return {
    number,
    maxError: summary.leastCount,
    lows: summary.lows.slice(0, length),
    highs: summary.highs.slice(0, length),
    counts,
    rules: Array.from(indexes.keys(), ({ policy, rule, limitKeys }) => ({ policy, rule, limitKeys })),
    ruleIndexes,
    texts: texts.packed(length),
  }
}
