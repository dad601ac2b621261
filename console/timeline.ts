import type { Activity, ActivitySample } from '../src/admin/api/instance-types.ts'
import type { TimeRange } from './time-range.ts'

/** A sample that covers more than this many intervals is of a time in which the process was suspended. */
const LONG_INTERVALS = 3
/** The axis of a new instance, which has little to show, begins with its first sample, but is at least this share of the range. */
const MIN_SHARE = 1 / 8
/** Time span that figures of the present cover. */
const PRESENT_MS = 10_000

/**
 * Samples on a time axis. A sample is null in a gap, so that no line is drawn across it. The first sample after a gap is there twice, at its beginning and at
 * its end, so that it has a line even if it is alone.
 */
export interface Timeline {
  /** Times in seconds since the epoch. */
  readonly times: readonly number[]
  readonly samples: readonly (ActivitySample | null)[]
  /** The axis, in seconds since the epoch. */
  readonly fromS: number
  readonly toS: number
  /** Whether nothing is known of the beginning of the range, because the process started later. */
  readonly isPart: boolean
  /** The range as it is called in sentences. */
  readonly words: string
  /** What the newest sample is called: that of a longer range may be some minutes old. */
  readonly latest: 'now' | 'latest'
}

export type Values = readonly (number | null)[]

/** `now` is the time of the newest sample of any range: those of longer ranges end earlier. */
export function timelineOf({ samples, interval_s }: Pick<Activity, 'samples' | 'interval_s'>, range: TimeRange, now: string): Timeline {
  const toS = Date.parse(now) / 1000
  const rangeFromS = toS - range.seconds
  const axis = new AxisSamples(interval_s)
  for (const sample of samples) if (Date.parse(sample.time) / 1000 > rangeFromS) axis.add(sample)
  const firstS = axis.times[0] ?? toS
  const fromS = Math.max(rangeFromS, Math.min(firstS, toS - range.seconds * MIN_SHARE))
  // At the beginning of the range there is always a part of an interval without a sample.
  const isPart = firstS > rangeFromS + interval_s
  return {
    times: axis.times,
    samples: axis.samples,
    fromS,
    toS,
    isPart,
    words: range.words,
    latest: range.name === '15m' ? 'now' : 'latest',
  }
}

class AxisSamples {
  readonly times: number[] = []
  readonly samples: (ActivitySample | null)[] = []
  readonly #intervalS: number

  constructor(intervalS: number) {
    this.#intervalS = intervalS
  }

  add(sample: ActivitySample): void {
    const endS = Date.parse(sample.time) / 1000
    const wasSetBack = this.#dropFrom(endS)
    const lastS = this.times.at(-1)
    const startS = endS - Math.min(sample.seconds, this.#intervalS)
    if (lastS === undefined) this.#push(startS, sample)
    else if (wasSetBack || this.#isGap(sample, lastS, endS)) {
      this.#push((lastS + (startS > lastS ? startS : endS)) / 2, null)
      if (startS > lastS) this.#push(startS, sample)
    }
    this.#push(endS, sample)
  }

  /** If the clock was set back, what is later than the new time has no position on the axis any more. */
  #dropFrom(timeS: number): boolean {
    let first = this.times.findLastIndex((time) => time < timeS) + 1
    if (first === this.times.length) return false
    // Neither the beginning of a sample that is dropped stays, nor a gap before it.
    const dropped = this.samples[first]
    while (first > 0 && (this.samples[first - 1] === null || this.samples[first - 1] === dropped)) first--
    this.times.length = first
    this.samples.length = first
    return true
  }

  /** Whether nothing is known of a visible part of the time between the last sample and this one. */
  #isGap({ seconds }: ActivitySample, lastS: number, endS: number): boolean {
    return endS - seconds - lastS > this.#intervalS / 2 || seconds > LONG_INTERVALS * this.#intervalS
  }

  #push(timeS: number, sample: ActivitySample | null): void {
    this.times.push(timeS)
    this.samples.push(sample)
  }
}

/** Returns a value of the samples at each moment. */
export function valuesOf({ samples }: Timeline, read: (sample: ActivitySample) => number | null | undefined): Values {
  return samples.map((sample) => (sample === null ? null : (read(sample) ?? null)))
}

/** Returns something that the samples count, per second. */
export function ratesOf(timeline: Timeline, count: (sample: ActivitySample) => number): Values {
  return valuesOf(timeline, (sample) => count(sample) / sample.seconds)
}

export interface NamedRates {
  readonly name: string
  readonly values: Values
}

/** Returns counts by name, per second: the names with the highest totals in descending order, then all others together. */
export function ratesByName(
  timeline: Timeline,
  countsOf: (sample: ActivitySample) => ReadonlyMap<string, number>,
  totalOf: (sample: ActivitySample) => number,
  shown: number,
): NamedRates[] {
  const sums = new Map<string, number>()
  for (const sample of new Set(timeline.samples)) {
    if (sample !== null) for (const [name, count] of countsOf(sample)) sums.set(name, (sums.get(name) ?? 0) + count)
  }
  const names = [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a)
  const kept = names.slice(0, shown).map(([name]) => name)
  const rates = kept.map((name) => ({ name, values: ratesOf(timeline, (sample) => countsOf(sample).get(name) ?? 0) }))
  const rest = (sample: ActivitySample): number => {
    const counts = countsOf(sample)
    // Amounts of money are fractions, so the difference may be slightly below zero.
    return Math.max(0, totalOf(sample) - kept.reduce((sum, name) => sum + (counts.get(name) ?? 0), 0))
  }
  const hasRest = timeline.samples.some((sample) => sample !== null && rest(sample) > 1e-9)
  return hasRest ? [...rates, { name: 'all others', values: ratesOf(timeline, rest) }] : rates
}

/** Returns the rate per second over the samples of the last ten seconds, or undefined if there are no samples. */
export function presentRate(samples: readonly ActivitySample[], count: (sample: ActivitySample) => number): number | undefined {
  const last = samples.at(-1)
  if (last === undefined) return undefined
  const recent = samples.filter(({ time }) => Date.parse(last.time) - Date.parse(time) < PRESENT_MS)
  const seconds = recent.reduce((sum, sample) => sum + sample.seconds, 0)
  return recent.reduce((sum, sample) => sum + count(sample), 0) / seconds
}
