import type { ActivitySample } from '../src/admin/api/instance-types.ts'

/** More than this many intervals without a sample are a gap. */
const GAP_INTERVALS = 3
/** Time span that figures of the present cover. */
const PRESENT_MS = 10_000

/** Samples on a time axis. A sample is null in a gap, so that no line is drawn across it. */
export interface Timeline {
  /** Times in seconds since the epoch. */
  readonly times: readonly number[]
  readonly samples: readonly (ActivitySample | null)[]
}

export type Values = readonly (number | null)[]

export function timelineOf(samples: readonly ActivitySample[], intervalS: number): Timeline {
  const times: number[] = []
  const moments: (ActivitySample | null)[] = []
  for (const sample of samples) {
    const time = Date.parse(sample.time) / 1000
    const last = times.at(-1)
    // The clock was set back, so the earlier samples have no position on the axis any more.
    if (last !== undefined && time <= last) {
      times.length = 0
      moments.length = 0
    } else if (last !== undefined && time - last > GAP_INTERVALS * intervalS) {
      times.push(last + intervalS)
      moments.push(null)
    }
    times.push(time)
    moments.push(sample)
  }
  return { times, samples: moments }
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
  for (const sample of timeline.samples) {
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
