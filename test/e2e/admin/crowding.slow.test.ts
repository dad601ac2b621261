import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { AdminEndpoints } from '../../../src/admin/admin-server.ts'
import { Exposition } from '../../../src/telemetry/metrics/exposition.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { HeldNow } from '../../support/service/held-now.ts'
import { ask } from '../../support/service/http.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const METRICS = 'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n'
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] }))
const OWN_PORT = { EDGE_ADMIN_PORT: '0' }

// Attacks on the admin port: test/campaigns/admin-crowding.test.ts
describe('requests for operators', () => {
  test('of many connections wait with one timer for all of them', async () => {
    const edge = await running({ bundle: BUNDLE })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    onTestFinished(() => timers.mockRestore())
    // No time passes: what was used up does not grow back.
    const time = new HeldNow()
    const clients = Array.from({ length: 120 }, () => RawClient.connect(edge.port))
    const count = (): number => clients.reduce((sum, { received }) => sum + statusesIn(received).length, 0)
    for (const client of clients) client.send(LIVEZ.repeat(10))
    await until(() => count() >= 400)
    const before = timers.mock.calls.length
    for (let turns = 0; turns < 2000; turns++) await turn()
    // A timer is due at most once in a turn. Some are the service's own.
    expect(timers.mock.calls.length - before).toBeLessThan(2000 + 100)
    time.letGo()
    await until(() => count() === 1200)
  })

  test.each([
    ['on a port of their own', OWN_PORT],
    ['beside decisions', {}],
  ])('%s that wait get their response though the client has closed its side', async (_where, env) => {
    const edge = await running({ bundle: BUNDLE, env })
    const steps = vi.spyOn(Exposition.prototype, 'steps')
    let isHeld = true
    steps.mockImplementationOnce(function* () {
      while (isHeld) yield
      return Buffer.from('text')
    })
    onTestFinished(() => void vi.restoreAllMocks())
    const client = RawClient.connect(portOf(edge.service.addresses.get('admin')) ?? edge.port)
    client.send(METRICS + LIVEZ)
    client.socket.end()
    await until(() => steps.mock.calls.length > 0)
    isHeld = false
    expect(statusesIn(await client.closed())).toEqual([200, 200])
  })

  test('that wait on the port of their own are not even parsed, but for a few', async () => {
    const edge = await running({ bundle: BUNDLE, env: OWN_PORT })
    const handle = vi.spyOn(AdminEndpoints.prototype, 'handle')
    const steps = vi.spyOn(Exposition.prototype, 'steps')
    let isHeld = true
    steps.mockImplementationOnce(function* () {
      while (isHeld) yield
      return Buffer.from('text')
    })
    onTestFinished(() => void vi.restoreAllMocks())
    const client = RawClient.connect(edge.adminPort)
    client.send(METRICS + LIVEZ.repeat(5000))
    await until(() => steps.mock.calls.length > 0)
    expect(await edge.decideTimes(50)).toEqual(Array(50).fill(200))
    // Sixteen wait, and those that came in one KiB with the last of them.
    expect(handle.mock.calls.length).toBeLessThan(60)
    isHeld = false
    await until(() => statusesIn(client.received).length > 500)
  })

  test('with a body larger than any of them has are cut off, whether it ends or not', async () => {
    const edge = await running({ bundle: BUNDLE, env: OWN_PORT })
    for (const [length, status] of [
      ['Content-Length: 1000000000', 413],
      ['Transfer-Encoding: chunked', 405],
    ]) {
      const client = RawClient.connect(edge.adminPort)
      client.send(`POST /livez HTTP/1.1\r\nHost: a\r\n${length}\r\n\r\n`)
      await client.sees(`HTTP/1.1 ${status} `)
      const writing = setInterval(() => client.socket.writable && client.send(`10000\r\n${'x'.repeat(0x10000)}\r\n`), 1)
      onTestFinished(() => clearInterval(writing))
      await client.closed()
      clearInterval(writing)
    }
    expect((await ask(edge.adminPort, 'GET', '/livez')).status).toBe(200)
  })
})
