import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient, readAnswer, statusesIn, valuesOf } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { type Environment, scratchDirectory, serving, thisTest } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const MAX_OPEN_FILES = 256
const CLIENTS = 600
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

describe(`${CLIENTS} clients and ${MAX_OPEN_FILES} open files`, () => {
  test('each client of a proxy that is let in gets the answer of the backend, each other one 503', async () => {
    let isReleased = false
    const backend = await HttpBackend.start(async (_req, res) => {
      await until(() => isReleased || res.destroyed)
      res.end('hello')
    })
    const { cli, admin, bundlePath } = await serve(proxyEnv(backend.url))
    const clients = connectAll(cli.port, GET)
    const answered = (): RawClient[] => clients.filter(({ received }) => received !== '')
    await until(() => backend.seen.length + clients.filter(({ received, isClosed }) => isClosed || received !== '').length === CLIENTS)
    // The rest of the service has what it needs.
    const refused = await metric(admin, 'edge_connections_refused_total{port="main"}')
    expect(refused).toBeGreaterThan(0)
    // A client that is slow to send its request may be cut instead, as a silent one: others want its place.
    expect(refused).toBeLessThanOrEqual(CLIENTS - backend.seen.length)
    await replaceFile(bundlePath, JSON.stringify(bundle(2, POLICY)))
    await until(() => cli.logged('bundle_applied').length === 2)
    const turnedAway = answered()
    expect((await untilLogged(cli, 'accept_failed'))[0]).toMatchObject({ level: 'error', reason: 'too_many_connections', port: 'main' })
    expect(backend.seen.length).toBeGreaterThan(50)
    isReleased = true
    await until(() => clients.filter(({ received }) => received.endsWith('hello')).length === backend.seen.length)
    for (const { received } of turnedAway) {
      const answer = readAnswer(received)
      expect([answer.status, valuesOf(answer, 'X-Edge-Reason'), valuesOf(answer, 'Retry-After')]).toEqual([
        503,
        ['too_many_connections'],
        ['1'],
      ])
    }
    expect(cli.logged('backend_failed')).toEqual([])
    // Those that are served now only keep their connections: they make room.
    const late = RawClient.connect(cli.port)
    late.send(GET)
    await late.sees('hello')
    // Full again, and the counters can still be saved.
    isReleased = false
    const seen = backend.seen.length
    connectAll(cli.port, GET)
    await until(() => backend.seen.length > seen + 50)
    expect(await cli.stop()).toBe(0)
    expect(cli.logged('state_not_saved')).toEqual([])
  })

  test('silent connections make room too', async () => {
    const { cli } = await serve({})
    connectAll(cli.port, '')
    // Of one address, the oldest go at once.
    await until(async () => (await ask(cli.port, 'POST', '/v1/decision', [...FIELDS]).catch(() => undefined))?.status === 200)
  })

  test('idle connections of a decision service make room for those that ask', async () => {
    const { cli, admin } = await serve({})
    let served = 0
    // A worker that has no idle connection while the other has them all refuses: its clients come again, as they are told to.
    const statuses = new Set<number>()
    await until(async () => {
      const some = connectAll(cli.port, decisionBytes(original('/')), 50)
      await until(() => some.every(({ received, isClosed }) => isClosed || received.includes('\r\n\r\n')))
      for (const status of some.flatMap(({ received }) => statusesIn(received))) statuses.add(status)
      served += some.filter(({ received }) => statusesIn(received)[0] === 200).length
      return served >= CLIENTS
    })
    for (const status of statuses) expect([200, 503]).toContain(status)
    expect((await ask(admin, 'GET', '/readyz')).status).toBe(200)
  })
})

const FIELDS = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/'],
] as const
const POLICY = policy('p', { rules: [bucketRule('r', [], 100_000)] })

async function serve(env: Environment): Promise<{ cli: Cli; admin: number; bundlePath: string }> {
  const directory = await scratchDirectory()
  const bundlePath = join(directory, 'bundle.json')
  await writeFile(bundlePath, JSON.stringify(bundle(1, POLICY)))
  const files = { EDGE_CONFIG_FILE: bundlePath, EDGE_STATE_FILE: join(directory, 'state'), EDGE_ADMIN_PORT: '0', EDGE_STORE_SIZE: '1m' }
  const cli = await serving({ ...env, ...files, EDGE_WORKERS: '2' }, [], thisTest, { maxOpenFiles: MAX_OPEN_FILES })
  const admin = Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(cli.stdout)![1])
  return { cli, admin, bundlePath }
}

function connectAll(port: number, bytes: string | Buffer, count = CLIENTS): RawClient[] {
  return Array.from({ length: count }, () => {
    const client = RawClient.connect(port)
    if (bytes.length > 0) client.send(bytes)
    return client
  })
}
