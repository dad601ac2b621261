import { expect } from 'vitest'
import { askAdmin } from '../admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { admitted, HARDLY_ANY } from '../redis/sharing-edge.ts'
import type { Edge } from '../service/edge.ts'
import { until } from '../until.ts'

export const BURST = 20

export const RULES = bundle(1, policy('api', { rules: [bucketRule('key', ['header:x-key'], BURST, HARDLY_ANY)] }))

/** So long that nothing is forgotten while a test runs unless it is told to be. */
export const LONG_LEASES = { EDGE_REDIS_MODE: 'leased', EDGE_REDIS_LEASE_MS: '60000' }

export const RESET = { policy: 'api', rule: 'key', values: { 'header:x-key': 'alice' }, reason: 'a test' }

/** An override that is set now is found with the same question as the reset before it. */
export async function told(operated: Edge, other: Edge): Promise<void> {
  const body = { ...RESET, values: { 'header:x-key': 'somebody else' }, unlimited: true, until: '1h' }
  const set = askAdmin(operated.adminPort, 'POST', 'overrides', { body })
  await until(async () => (await askAdmin(other.adminPort, 'GET', 'overrides')).json.overrides.length === 1)
  expect((await set).status).toBe(201)
}

export async function hasRedis(edge: Edge): Promise<boolean> {
  return (await askAdmin(edge.adminPort, 'GET', 'status')).json.redis.connected
}

export async function reset(edge: Edge): Promise<void> {
  expect((await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: RESET })).status).toBe(200)
}

export function decide(edge: Edge, times: number, key = 'alice'): Promise<number[]> {
  return edge.decideTimes(times, { fields: [['X-Key', key]] })
}

export async function usedUp(edge: Edge, key = 'alice'): Promise<void> {
  expect(admitted(await decide(edge, BURST + 2, key))).toBe(BURST)
}
