import type { Activity, ActivityRange } from '../src/admin/api/instance-types.ts'
import { ask } from './api.ts'
import { LIVE_MS, type Poll, type Read, usePoll } from './live.ts'
import { TIME_RANGES } from './time-range.ts'

/** As many samples as edge keeps of a range. */
const KEPT_SAMPLES = 450
/** Samples of longer ranges come less often. */
const LONGER_MS = 10_000

/** Polls the activity of the instance in the last quarter of an hour, or in a longer range, for as long as the component is shown. */
export function useActivity(range: ActivityRange = '15m'): Poll<Activity> {
  return usePoll(`activity?range=${range}`, range === '15m' ? LIVE_MS : LONGER_MS, READERS.get(range))
}

/** A poll keeps its reader, so there is one for each range. */
const READERS: ReadonlyMap<ActivityRange, Read<Activity>> = new Map(
  TIME_RANGES.map(({ name, seconds }) => [name, (known) => readActivity(name, seconds, known)]),
)

/** Asks only for the samples since the last known one. */
async function readActivity(range: ActivityRange, seconds: number, known: Activity | undefined): Promise<Activity> {
  const last = known?.samples.at(-1)
  const news = await ask<Activity>('GET', `activity?range=${range}${last === undefined ? '' : `&since=${last.time}`}`)
  const samples = [...(known?.samples ?? []), ...news.samples].slice(-KEPT_SAMPLES)
  const fromMs = Date.parse(samples.at(-1)?.time ?? '') - seconds * 1000
  return { ...news, samples: samples.filter(({ time }) => Date.parse(time) > fromMs) }
}
