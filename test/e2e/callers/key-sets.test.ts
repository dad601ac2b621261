import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Status } from '../../../src/admin/api/instance-types.ts'
import { readHere } from '../../../src/bundle/bundle-intake.ts'
import type { ReadBundle } from '../../../src/bundle/bundle-reader.ts'
import type { KeySetEntry } from '../../../src/callers/key-sets/key-source.ts'
import type { WorkerHost } from '../../../src/runtime/threads/worker-host.ts'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { KeySetServer, keySetText } from '../../support/callers/followed-key-sets.ts'
import { Edge } from '../../support/service/edge.ts'
import { ListeningHost } from '../../support/service/listening-host.ts'
import { metric } from '../../support/service/metrics.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

test('the key sets of a bundle reach the workers before it is active, and what workers ask for is fetched', async () => {
  const server = await KeySetServer.start('a')
  const { edge, host } = await started([{ name: 'okta', jwks_url: server.url }], { EDGE_BACKEND_HOSTS: new URL(server.url).host })
  expect(host.sent.map(({ type }) => type).indexOf('key_sets')).toBeLessThan(host.sent.map(({ type }) => type).indexOf('plan_active'))
  await until(() => kidsSent(host).length === 1)
  expect(kidsSent(host)).toEqual([['a']])
  expect(await metric(edge.port, 'edge_key_set_keys{issuer="okta"}')).toBe(1)
  server.publish('a', 'b')
  host.say({ type: 'ask_key_set', source: server.url })
  await until(() => kidsSent(host).length === 2)
  expect(kidsSent(host)[1]).toEqual(['a', 'b'])
})

test('by default only the origin of EDGE_BACKEND_URL may have key sets', async () => {
  const [backend, other] = [await KeySetServer.start('a'), await KeySetServer.start('a')]
  const env = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: new URL(backend.url).origin }
  const { edge } = await started([{ name: 'own', jwks_url: backend.url }], env)
  expect(await untilLogged(edge, 'key_set_loaded')).toMatchObject([{ issuer: 'own', url: backend.url }])
  const { edge: refusing } = await started([{ name: 'other', jwks_url: other.url }], env)
  expect((await untilLogged(refusing, 'bundle_refused'))[0]).toMatchObject({
    problems: [`callers.jwt[0].jwks_url: expected a host that EDGE_BACKEND_HOSTS allows; add ${new URL(other.url).host} to it`],
  })
  expect(other.fetches).toBe(0)
})

test('a bundle that names a place without permission is refused, and the one before stays', async () => {
  const { edge } = await started(
    [
      { name: 'cloud', jwks_url: 'http://169.254.169.254/latest' },
      { name: 'file', jwks_file: '../x' },
    ],
    {},
  )
  const [refused] = await untilLogged(edge, 'bundle_refused')
  expect(refused!['problems']).toEqual([
    'callers.jwt[0].jwks_url: expected a host other than a link-local address, or one of a metadata service',
    expect.stringMatching(/^callers\.jwt\[1\]\.jwks_file: expected the name of a file in EDGE_SECRETS_DIR/),
  ])
})

test('a key set in EDGE_SECRETS_DIR is read', async () => {
  const directory = await scratchDirectory({ onTestFinished })
  await writeFile(join(directory, 'okta.json'), keySetText('a', 'b'))
  const { edge } = await started([{ name: 'okta', jwks_file: 'okta.json' }], { EDGE_SECRETS_DIR: directory })
  expect(await untilLogged(edge, 'key_set_loaded')).toMatchObject([{ issuer: 'okta', path: join(directory, 'okta.json'), keys: 2 }])
})

test('a key set that fails is a problem of the instance, and does not keep its bundle from becoming active', async () => {
  const server = await KeySetServer.start()
  server.fail(500)
  const token = 'x'.repeat(32)
  const env = { EDGE_BACKEND_HOSTS: new URL(server.url).host, EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: token }
  const { edge } = await started([{ name: 'okta', jwks_url: server.url }], env)
  await untilLogged(edge, 'key_set_failed')
  const status = async (): Promise<unknown> => {
    const response = await fetch(`http://127.0.0.1:${edge.adminPort}/admin/v1/status`, { headers: { Authorization: `Bearer ${token}` } })
    return response.json()
  }
  expect(await status()).toMatchObject({
    problems: [{ code: 'key_set_failed', message: 'key set not loaded; no token of this issuer can be verified: it returned 500' }],
  })
})

test('operators see each key set with its age and its problem, and have all of them read again with SIGHUP', async () => {
  const [server, other] = [await KeySetServer.start('a', 'b'), await KeySetServer.start('c')]
  other.fail(500)
  const directory = await scratchDirectory({ onTestFinished })
  const hosts = [server, other].map(({ url }) => new URL(url).host).join()
  const entries = [
    { name: 'okta', jwks_url: `${server.url}?p=secret` },
    { name: 'login', jwks_url: other.url },
    { name: 'file', jwks_file: 'file.json' },
  ]
  const { edge } = await started(entries, { ...ADMIN_ENV, EDGE_BACKEND_HOSTS: hosts, EDGE_SECRETS_DIR: directory })
  await untilLogged(edge, 'key_set_failed', 2)
  const keySets = async (): Promise<Status['key_sets']> => (await askAdmin(edge.adminPort, 'GET', 'status')).json.key_sets
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const path = join(directory, 'file.json')
  const good = { problem: null, failing_since: null, read_at: time }
  const never = { keys: 0, read_at: null, failing_since: time }
  expect(await keySets()).toEqual([
    { issuer: 'okta', url: `${server.url}?…`, path: null, keys: 2, ...good },
    { issuer: 'login', url: other.url, path: null, problem: 'it returned 500', ...never },
    { issuer: 'file', url: null, path, problem: expect.stringContaining('no such file'), ...never },
  ])
  const [, { failing_since: since }] = (await keySets()) as [unknown, Status['key_sets'][number]]
  server.publish('a')
  other.fail(404)
  await edge.service.reload()
  expect(await keySets()).toMatchObject([{ keys: 1 }, { problem: 'it returned 404', failing_since: since }, { keys: 0 }])
  other.publish('c')
  server.fail(503)
  await writeFile(path, keySetText('d'))
  await edge.service.reload()
  expect(await keySets()).toMatchObject([
    { keys: 1, read_at: time, problem: 'it returned 503', failing_since: time },
    { keys: 1, ...good },
    { keys: 1, ...good },
  ])
  expect([server.fetches, other.fetches]).toEqual([3, 3])
})

test('the signal does so in the program', async () => {
  const server = await KeySetServer.start('a')
  const entry = { name: 'login', issuer: 'https://login.example.com', audiences: ['api'], jwks_url: server.url }
  const path = join(await scratchDirectory({ onTestFinished }), 'bundle.json')
  await writeFile(path, JSON.stringify({ ...bundle(1), callers: { jwt: [entry] } }))
  const cli = await serving({ EDGE_CONFIG_FILE: path, EDGE_BACKEND_HOSTS: new URL(server.url).host }, [], { onTestFinished })
  const loaded = (): number => cli.stderr.split('"key_set_loaded"').length - 1
  await until(() => loaded() === 1)
  server.publish('b')
  cli.process.kill('SIGHUP')
  await until(() => loaded() === 2)
})

interface Started {
  readonly edge: Edge
  readonly host: ListeningHost
}

async function started(entries: readonly KeySetEntry[], env: Readonly<Record<string, string>>): Promise<Started> {
  const readBundle: ReadBundle = async (...given) => {
    const read = await readHere(...given)
    return read.ok ? { ...read, keySetEntries: entries } : read
  }
  let host: ListeningHost | undefined
  const aroundHost = (inner: WorkerHost): WorkerHost => {
    host = new ListeningHost(inner)
    return host
  }
  const edge = await Edge.start({ bundle: bundle(1), env, readBundle, aroundHost })
  onTestFinished(() => edge.stop())
  return { edge, host: host! }
}

function kidsSent(host: ListeningHost): (readonly string[])[] {
  return host.sent
    .flatMap((message) => (message.type === 'key_sets' ? message.change.changed : []))
    .flatMap(({ keys }) => (keys ? [keys.kids] : []))
}
