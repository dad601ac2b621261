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
