import type { Activity } from '../src/admin/api/instance-types.ts'
import { ask } from './api.ts'
import { LIVE_MS, type Poll, usePoll } from './live.ts'

/** As many samples as edge keeps. */
const KEPT_SAMPLES = 450

/** Polls the last quarter of an hour of the instance's activity for as long as the component is shown. */
export function useActivity(): Poll<Activity> {
  return usePoll('activity', LIVE_MS, readActivity)
}

/** Asks only for the samples since the last known one. */
async function readActivity(known: Activity | undefined): Promise<Activity> {
  const last = known?.samples.at(-1)
  const news = await ask<Activity>('GET', last === undefined ? 'activity' : `activity?since=${last.time}`)
  return { ...news, samples: [...(known?.samples ?? []), ...news.samples].slice(-KEPT_SAMPLES) }
}
