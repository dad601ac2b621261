import { expect } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { ADMIN_ENV, askAdmin } from './admin-client.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001
export const INTERVAL_MS = 2000

export const BUNDLE = bundle(
  1,
  policy('p', { selector: { pathPrefix: '/p' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('q', { selector: { pathPrefix: '/q' }, rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
  policy('s', { selector: { pathPrefix: '/s' }, mode: 'shadow', rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
)

export async function activity(port: number, query = '') {
  const { status, json } = await askAdmin(port, 'GET', `activity${query}`)
  expect(status).toBe(200)
  return json
}

/** The samples of a range, each as the time of its end, its seconds and what it allowed. */
export async function covered(port: number, query: string): Promise<[time: string, seconds: number, allowed: number][]> {
  const { samples } = await activity(port, query)
  return samples.map(({ time, seconds, allowed }: { time: string; seconds: number; allowed: number }) => [time, seconds, allowed])
}

/** The service on a clock of its own, and what the two seconds until each question came to. */
export async function sampled(options: Parameters<typeof running>[0] = {}) {
  const clock = new ManualClock()
  const edge = await running({ bundle: BUNDLE, clock, ...options, env: { ...ADMIN_ENV, ...options.env } })
  const sample = async () => {
    clock.advance(INTERVAL_MS)
    return (await activity(edge.adminPort)).samples.at(-1)
  }
  return { edge, clock, sample }
}

export const alice = [['X-K', 'alice']] as const
