import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { health, READY, unready } from '../../support/service/asked-health.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'

function adminEnv(edge: Edge): Record<string, string> {
  return { EDGE_ADMIN_PORT: String(edge.adminPort) }
}

// Other ports, TLS and strangers: health.slow.test.ts
describe.concurrent('edge health', () => {
  test('asks the admin port, without a token', async (t) => {
    const edge = await running({ bundle: bundle(7), env: { EDGE_ADMIN_PORT: '0' } }, t)
    expect(await health(t, adminEnv(edge))).toEqual(READY)
  })

  test('says why an instance is not ready', async (t) => {
    const edge = await running({ env: { EDGE_ADMIN_PORT: '0' } }, t)
    expect(await health(t, adminEnv(edge))).toEqual(unready(/^edge health: not ready: no bundle is active yet\n$/))
  })
})
