import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { HeldNow } from '../../support/service/held-now.ts'
import { portOf } from '../../support/service/port-of.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const LIVEZ = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 1e9, 1e-9)] }))
const OWN_PORT = { EDGE_ADMIN_PORT: '0' }

// Attacks on the admin port: test/campaigns/admin-crowding.test.ts
describe('requests for operators', () => {
  test.each([
    ['on a port of their own', OWN_PORT],
    ['beside decisions', {}],
  ])('%s wait when a worker has no more time for them, and decisions go on', async (_where, env) => {
    const edge = await running({ bundle: BUNDLE, env })
    const clients = Array.from({ length: 6 }, () => RawClient.connect(portOf(edge.service.addresses.get('admin')) ?? edge.port))
    const count = (): number => clients.reduce((sum, { received }) => sum + statusesIn(received).length, 0)
    // No time passes: what was used up does not grow back.
    const time = new HeldNow()
    for (const client of clients) client.send(LIVEZ.repeat(100))
    await until(() => count() >= 400)
    expect(await edge.decideTimes(50)).toEqual(Array(50).fill(200))
    expect(count()).toBeLessThanOrEqual(401)
    time.letGo()
    await until(() => count() === 600)
  })

  test('with a small body are served, and so is the next one on the connection', async () => {
    const edge = await running({ bundle: BUNDLE, env: OWN_PORT })
    const client = RawClient.connect(edge.adminPort)
    client.send(`GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n${'x'.repeat(4000)}${LIVEZ}`)
    await until(() => statusesIn(client.received).length === 2)
    expect(statusesIn(client.received)).toEqual([200, 200])
  })
})
