import { expect } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { until } from '../until.ts'

/** The one call that there was is broken off, and the backend is not to blame. */
export async function expectAborted(edge: Edge, backend: { readonly openConnections: number }): Promise<void> {
  await until(() => backend.openConnections === 0)
  expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
  expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(1)
  expect(await edge.metric('edge_backend_connections')).toBe(0)
  expect(edge.log.filter(({ event }) => event === 'backend_failed')).toEqual([])
}
