import type { CallerDigest } from '../engine/decide-options.ts'
import type { PlanRule } from '../policy/plan.ts'
import { type CallerIds, type KnownRule, type PackedTexts, type RuleName, ValueTexts } from './caller-ids.ts'
import { StreamSummary } from './stream-summary.ts'

/** Rejects are counted in periods of this length, which begin at the same time in all threads. */
export const PERIOD_MS = 5 * 60_000
/** The current period and so many before it make up an hour at least. */
export const PERIODS_OF_AN_HOUR = 12
/** How many callers are counted in a period. The current period and the previous one take 2.4 MB together, most of it for values. */
const MAX_CALLERS = 1000
/**
 * How many callers are kept of an older period: those that were rejected most. A caller takes 38 bytes and two for each character of its values, of which
 * there are 576 at most. So the eleven older periods take 2.6 MB at most, and 0.3 MB if callers have one value of 40 characters.
 */
const MAX_OLDER_CALLERS = 200

/** The rejects of one period in one thread, with a row for each caller. It is small and quick to make, because the thread has requests to decide. */
export interface RejectedPeriod {
  readonly number: number
  /** The most by which a count can be too high, and the most rejects that a caller without a row can have had. */
  readonly maxError: number
  /** 64 bits that identify the caller in all threads. */
  readonly lows: Int32Array
  readonly highs: Int32Array
  readonly counts: Float64Array
  /** When the caller was first and last rejected in the period, on the monotonic clock. */
  readonly firstsMs: Float64Array
  readonly lastsMs: Float64Array
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
  /** Ascending by number. */
  #older: RejectedPeriod[] = []

  constructor(ids: CallerIds, callerDigest: CallerDigest) {
    this.#ids = ids
    this.#current = newPeriod(callerDigest)
    this.#previous = newPeriod(callerDigest)
  }

  add(rule: PlanRule, values: readonly string[], from: number, nowMs: number): void {
    if (nowMs >= this.#current.endMs) this.turnTo(nowMs)
    const { summary, firstsMs, lastsMs, rules, texts } = this.#current
    const known = this.#ids.identify(rule, values, from)
    const slot = summary.add(this.#ids.low, this.#ids.high)
    lastsMs[slot] = nowMs
    if (!summary.isNew) return
    firstsMs[slot] = nowMs
    rules[slot] = known
    texts.write(slot, known, values, from)
  }

  /** Begins the period of this time if it is a new one, and forgets periods that are too old. */
  turnTo(nowMs: number): void {
    const number = periodAt(nowMs)
    if (number <= this.#current.number) return
    const oldest = this.#previous
    this.#retire(oldest)
    if (number > this.#current.number + 1) this.#retire(this.#current)
    this.#previous = this.#current
    this.#current = oldest
    oldest.number = number
    oldest.endMs = (number + 1) * PERIOD_MS
    this.#older = this.#older.filter((period) => period.number >= number - PERIODS_OF_AN_HOUR)
  }

  /** Returns the periods of the last hour in which this thread rejected anything. */
  read(nowMs: number): RejectedPeriod[] {
    this.turnTo(nowMs)
    const latest = [this.#previous, this.#current].filter(({ summary }) => summary.length > 0)
    return [...this.#older, ...latest.map((period) => readPeriod(period, MAX_CALLERS))]
  }

  /** Keeps the callers of a period that were rejected most, and empties it for reuse. */
  #retire(period: Period): void {
    if (period.summary.length === 0) return
    this.#older.push(readPeriod(period, MAX_OLDER_CALLERS))
    period.summary.clear()
    period.rules.length = 0
    period.texts.clear()
  }
}

export function periodAt(nowMs: number): number {
  return Math.floor(nowMs / PERIOD_MS)
}

interface Period {
  number: number
  endMs: number
  readonly summary: StreamSummary
  /** The rest is indexed by slot of the summary. */
  readonly firstsMs: Float64Array
  readonly lastsMs: Float64Array
  readonly rules: KnownRule[]
  readonly texts: ValueTexts
}

function newPeriod(callerDigest: CallerDigest): Period {
  return {
    number: Number.NEGATIVE_INFINITY,
    endMs: Number.NEGATIVE_INFINITY,
    summary: new StreamSummary(MAX_CALLERS),
    firstsMs: new Float64Array(MAX_CALLERS),
    lastsMs: new Float64Array(MAX_CALLERS),
    rules: [],
    texts: new ValueTexts(MAX_CALLERS, callerDigest),
  }
}

/** Copies the `max` callers that were rejected most. */
function readPeriod({ number, summary, firstsMs, lastsMs, rules, texts }: Period, max: number): RejectedPeriod {
  const all = Array.from(rules.keys())
  if (all.length > max) all.sort((a, b) => summary.countAt(b) - summary.countAt(a))
  const slots = all.slice(0, max)
  const { length } = slots
  const [lows, highs, ruleIndexes] = [new Int32Array(length), new Int32Array(length), new Uint16Array(length)]
  const [counts, firsts, lasts] = [new Float64Array(length), new Float64Array(length), new Float64Array(length)]
  const indexes = new Map<KnownRule, number>()
  for (let row = 0; row < length; row++) {
    const slot = slots[row]!
    const rule = rules[slot]!
    if (!indexes.has(rule)) indexes.set(rule, indexes.size)
    ruleIndexes[row] = indexes.get(rule)!
    lows[row] = summary.lows[slot]!
    highs[row] = summary.highs[slot]!
    counts[row] = summary.countAt(slot)
    firsts[row] = firstsMs[slot]!
    lasts[row] = lastsMs[slot]!
  }
  return {
    number,
    maxError: all.length > max ? summary.countAt(all[max]!) : summary.leastCount,
    lows,
    highs,
    counts,
    firstsMs: firsts,
    lastsMs: lasts,
    rules: Array.from(indexes.keys(), ({ policy, rule, limitKeys }) => ({ policy, rule, limitKeys })),
    ruleIndexes,
    texts: texts.packed(slots),
  }
}
