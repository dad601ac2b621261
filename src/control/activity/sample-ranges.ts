import type { ActivityRange } from '../../admin/api/instance-types.ts'

/** At most so many samples of a range are kept and returned. */
const MAX_SAMPLES = 450
/** Bound on all texts of a range together, because names of policies and rules may be long. The oldest samples are dropped first. */
const MAX_CHARACTERS = 1024 * 1024
/** The samples of a minute and a few seconds. */
const BUSIEST_OF = 33

interface RangeLength {
  readonly intervalMs: number
  readonly lengthMs: number
}

/** The ranges that operators may look at, the shortest first: the coarser the samples, the further they reach back. */
export const SAMPLE_RANGES: Readonly<Record<ActivityRange, RangeLength>> = {
  '15m': { intervalMs: 2000, lengthMs: 15 * 60_000 },
  '1h': { intervalMs: 10_000, lengthMs: 3_600_000 },
  '6h': { intervalMs: 60_000, lengthMs: 6 * 3_600_000 },
  '24h': { intervalMs: 240_000, lengthMs: 24 * 3_600_000 },
}

interface KeptSample {
  readonly time: string
  readonly text: string
  /** The policies that decided most. */
  readonly busiest: readonly string[]
}

/**
 * The samples of one range as JSON, in bounded memory: all four ranges together have at most 4 Mi characters. After 24 hours in which each sample listed
 * as many policies and rules as it may, they took 3.2 MB.
 */
export class RecentSamples {
  readonly #lengthMs: number
  /** Ordered from the oldest to the newest. */
  readonly #samples: KeptSample[] = []
  #characters = 0

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  add(time: string, text: string, busiest: readonly string[] = []): void {
    this.#samples.push({ time, text, busiest })
    this.#characters += text.length
    while (this.#samples.length > MAX_SAMPLES || (this.#characters > MAX_CHARACTERS && this.#samples.length > 1))
      this.#characters -= this.#samples.shift()!.text.length
  }

  /**
   * Returns the samples after the one of this time, by position, so that a clock set back hides none; if it is unknown, those with a later time. What
   * happened before the range is left out, however few samples there are since: the machine may have slept in between.
   */
  since(time: string | undefined): string[] {
    const newest = this.#samples.at(-1)
    if (newest === undefined) return []
    const first = new Date(Date.parse(newest.time) - this.#lengthMs).toISOString()
    const known = this.#samples.findLastIndex((sample) => sample.time === time)
    const later = known >= 0 ? this.#samples.slice(known + 1) : this.#samples.filter((sample) => time === undefined || sample.time > time)
    return later.filter((sample) => sample.time > first).map(({ text }) => text)
  }

  /** Returns every policy that decided anything in the last minute, unless there were more than a table shows. */
  busiest(): string[] {
    return [...new Set(this.#samples.slice(-BUSIEST_OF).flatMap((sample) => sample.busiest))]
  }
}

/** A timer may fire early, and requests for samples may make them shorter, so a span is full this long before its end. */
const SLACK_MS = 1000

/** The time that a sample of a longer range covers so far. It ends when it is long enough, or before a gap. */
export class OpenSpan {
  readonly #intervalMs: number
  #coveredMs = 0

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs
  }

  get isEmpty(): boolean {
    return this.#coveredMs === 0
  }

  get isFull(): boolean {
    return this.#coveredMs >= this.#intervalMs - SLACK_MS
  }

  /**
   * Whether the span must end before the next look, because the sample would show what it counted at a wrong time: the process did not run for a whole
   * interval, or the wall clock and the monotonic one have gone apart by more than half of one. The latter happens when a machine sleeps or its clock is
   * set. Shorter gaps are not visible at this resolution.
   */
  isBrokenBy(elapsedMs: number, wallElapsedMs: number): boolean {
    return elapsedMs >= this.#intervalMs || Math.abs(wallElapsedMs - elapsedMs) > this.#intervalMs / 2
  }

  add(elapsedMs: number): void {
    this.#coveredMs += elapsedMs
  }

  /** Returns how much time it covered, without gaps, and starts anew. */
  end(): number {
    const coveredMs = this.#coveredMs
    this.#coveredMs = 0
    return coveredMs
  }
}
