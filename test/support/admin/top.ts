import { expect } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { askAdmin } from './admin-client.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

export const KEYED = bundle(
  1,
  policy('p', { selector: { pathPrefix: '/p' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('q', {
    selector: { pathPrefix: '/q' },
    rules: [bucketRule('r', ['header:x-k'], 2, HARDLY_ANY), bucketRule('wide', [], 100, HARDLY_ANY)],
  }),
)

/** What GET top responds. */
export async function top(edge: Edge, query = '') {
  const { status, json } = await askAdmin(edge.adminPort, 'GET', `top${query}`)
  expect(status).toBe(200)
  return json
}

export function asks(edge: Edge, times: number, key: string, uri = '/p'): Promise<number[]> {
  return edge.decideTimes(times, { uri, fields: [['X-K', key]] })
}

/** A response of GET top in which these callers were rejected once, at this time. */
export function topResponse(callers: readonly object[], time = '2026-11-16T10:00:00Z'): object {
  const counted = { since: time, max_error: 0, complete: true }
  const rejected = callers.map((caller) => ({ mode: 'enforce', ...caller, count: 1, hour_count: 1, first_at: time, last_at: time }))
  return { ...counted, hour: counted, rejected, nearest: [] }
}
