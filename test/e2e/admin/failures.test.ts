import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { DebugSessions } from '../../../src/sessions/debug-sessions.ts'
import { Exposition } from '../../../src/telemetry/metrics/exposition.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyOptions } from '../../support/proxy/proxy.ts'
import type { Edge, EdgeOptions } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'

const SECRET = { EDGE_DEBUG_SESSION_SECRET: 'correct horse battery' }

describe('an endpoint for operators that fails', () => {
  test.each([
    ['on a port of its own', async () => ({ bundle: bundle(1), env: { ...SECRET, EDGE_ADMIN_PORT: '0' } })],
    ['beside decisions', async () => ({ bundle: bundle(1), env: SECRET })],
    ['beside proxied requests', async () => proxyOptions(await HttpBackend.start(), { env: SECRET })],
    ['of a proxy, on a port of its own', async () => proxyOptions(await HttpBackend.start(), { env: { ...SECRET, EDGE_ADMIN_PORT: '0' } })],
  ] as readonly [string, () => Promise<EdgeOptions>][])('%s: 500, and no decision is refused', async (_where, options) => {
    const clock = new ManualClock()
    const edge = await running({ ...(await options()), clock })
    const port = portOf(edge.service.addresses.get('admin')) ?? edge.port
    vi.spyOn(Exposition.prototype, 'steps').mockImplementation(raise)
    vi.spyOn(DebugSessions.prototype, 'isSecret').mockImplementation(raise)
    onTestFinished(() => void vi.restoreAllMocks())
    expect(await ask(port, 'GET', '/metrics')).toMatchObject({ status: 500, body: 'internal error\n' })
    expect((await ask(port, 'POST', '/v1/debug/session')).status).toBe(500)
    expect((await ask(port, 'GET', '/livez')).status).toBe(200)
    expect(logged(edge)).toEqual([[50, 'broken', 0]])
    clock.advance(1000)
    expect((await ask(port, 'GET', '/metrics')).status).toBe(500)
    expect(logged(edge).slice(1)).toEqual([[50, 'broken', 1]])
    vi.restoreAllMocks()

    const metrics = await metricsOf(port)
    expect(metrics.value('edge_admin_failures_total')).toBe(3)
    expect([metrics.sum('edge_refused_requests_total'), metrics.sum('edge_decisions_total')]).toEqual([0, 0])
    expect(edge.logged('internal_error')).toEqual([])
  })
})

function raise(): never {
  throw new Error('broken')
}

function logged(edge: Edge): unknown[][] {
  return edge.logged('admin_failed').map(({ level, err, unlogged }) => [level, (err as Error).message, unlogged])
}
