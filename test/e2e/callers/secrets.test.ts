import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts, teamToken } from '../../support/callers/known-callers.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import type { Edge } from '../../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../../support/service/http.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { OtlpReceiver } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'
import { until } from '../../support/until.ts'

const RULES = bundle(
  1,
  policy('p', {
    rules: [
      bucketRule('team', ['caller:team'], 3, 1e-6),
      bucketRule('id', ['caller:id', 'bearer'], 100, 1),
      blockRule('block', { 'caller:team': 'team-banned' }),
    ],
  }),
)
const bearer = (token: string): Fields => [['Authorization', `Bearer ${token}`]]
const FROM = ['bearer', 'header:x-team-key']

async function createKey(edge: Edge, team = 'blue'): Promise<{ readonly key: string; readonly id: string; readonly digest: string }> {
  return (await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team }, reason: 'a test' } })).json
}

describe.each(PROXY_WIRES)('with the wire %s, a backend', (wire) => {
  test('gets no field with what may be an issued key, whatever came of it, and all others as they were sent', async () => {
    const backend = await HttpBackend.start()
    const published = { ...bundle(1, policy('p', { rules: [bucketRule('r', [], 1000)] })), callers: { keys: { from: FROM } } }
    const edge = await proxying(backend, { bundle: published, env: { ...ADMIN_ENV, EDGE_PROXY_WIRE: wire } })
    const [{ key }, revoked] = [await createKey(edge), await createKey(edge)]
    await askAdmin(edge.adminPort, 'DELETE', `keys/${revoked.id}?reason=over`)
    const never = `edge_${'A'.repeat(43)}`
    const inField = (value: string): Fields => [['X-Team-Key', value]]
    const sent: Fields[] = [
      ...[key, revoked.key, never].flatMap((each) => [bearer(each), inField(each), [...bearer(each), ...inField(each)]]),
      [...bearer(key), ...inField(never)],
      [...inField(key), ...inField(revoked.key)],
      [...inField(key), ...bearer('another')],
      [...inField('another'), ...bearer(key)],
      [...bearer(key), ...bearer('another')],
      [['authorization', `BEARER  ${key}`]],
      [['Authorization', `Bearer another ${key}`]],
      ...oddlySpelled(key).map((value): Fields => [['Authorization', value]]),
      [['Authorization', `Token ${key}`], ...inField('another')],
      inField(`${key}, ${never}`),
      inField(`Bearer ${key}`),
      ...[key, revoked.key].flatMap((each): Fields[] => [
        [['X_Team_Key', each]],
        [['x.team-KEY', each]],
        [...inField(each), ['X_TEAM_KEY', each]],
      ]),
    ]
    for (const fields of sent) expect((await ask(edge.port, 'GET', '/', [...fields, ['X-Other', '1']])).status).toBe(200)
    expect(backend.seen).toHaveLength(sent.length)
    expect(JSON.stringify(backend.seen.map(({ rawHeaders }) => rawHeaders))).not.toContain('edge_')
    expect(backend.seen.map(({ headers }) => headers['x-other'])).toEqual(sent.map(() => '1'))
    const basic = (text: string): Fields => [['Authorization', `Basic ${Buffer.from(text).toString('base64')}`]]
    const byChance = `eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJvdGhlciJ9.xx${'edge_'.repeat(20)}`
    for (const fields of [bearer('sk-other'), inField('sk-other'), basic('x:y'), basic('edge_service:secret'), bearer(byChance)]) {
      await ask(edge.port, 'GET', '/', fields)
      expect(backend.seen.at(-1)!.rawHeaders).toContain(fields[0]![1])
    }
  })
})

test.each(PROXY_WIRES)(
  'with the wire %s, no mode and no exception lets a key through that is oddly spelled in Authorization',
  async (wire) => {
    for (const mode of ['shadow', 'enforce']) {
      const backend = await HttpBackend.start()
      const callers = { mode, except_paths: ['/open'], keys: { from: ['header:x-team-key'] } }
      const published = { ...bundle(1, policy('p', { rules: [bucketRule('r', [], 1000)] })), callers }
      const edge = await proxying(backend, { bundle: published, env: { ...ADMIN_ENV, EDGE_PROXY_WIRE: wire } })
      const { key } = await createKey(edge)
      for (const value of oddlySpelled(key)) {
        for (const name of ['Authorization', 'AUTHORIZATION'])
          expect((await ask(edge.port, 'GET', '/open', [[name, value]])).status).toBe(200)
      }
      expect(backend.seen).toHaveLength(2 * oddlySpelled(key).length)
      expect(backend.seen.filter(({ headers }) => 'authorization' in headers)).toEqual([])
    }
  },
)

/** What clients write into `Authorization` that are not quite right. */
function oddlySpelled(key: string): string[] {
  const encoded = (text: string): string => Buffer.from(text).toString('base64')
  return [
    key,
    `Token ${key}`,
    `token="${key}"`,
    `Bearer "${key}"`,
    `Bearer:${key}`,
    `Bearer ${key},`,
    `Bearer x${key}`,
    `Basic ${key}`,
    `Basic ${encoded(`user:${key}`)}`,
    `basic  ${encoded(`${key}:`)}`,
    `Basic ${Buffer.from(key).toString('base64url')}`,
    `ApiKey ${key} and more`,
  ]
}

test('no token and no key is in the log, the metrics, events, decisions, traces, responses, the API for operators, or any file', async () => {
  closeTracesPatiently()
  const [provider, receiver, backend] = [
    await IdentityProvider.start({ onTestFinished }),
    await OtlpReceiver.start(),
    await HttpBackend.start(),
  ]
  const directory = await scratchDirectory()
  const callers = { mode: 'enforce', jwt: [await providerEntry(provider)], keys: { from: FROM } }
  const env = {
    ...ADMIN_ENV,
    ...providerHosts(provider),
    ...receiver.env,
    EDGE_LOG_LEVEL: 'debug',
    EDGE_STATE_FILE: join(directory, 'state'),
    EDGE_KEYS_FILE: join(directory, 'keys'),
    EDGE_DECISION_LOG: join(directory, 'decisions'),
  }
  const edge = await proxying(backend, { bundle: { ...RULES, callers }, env })
  const stream = await EventClient.open(edge.adminPort)
  const tokens = [
    await teamToken(provider, 'ada', 'blue'),
    await teamToken(provider, 'eve', 'banned'),
    await provider.token({ audience: 'x' }),
  ]
  const forged = `${tokens[0]!.slice(0, -30)}${'A'.repeat(30)}`
  const keys = [await createKey(edge), await createKey(edge, 'team-banned'), await createKey(edge)]
  await askAdmin(edge.adminPort, 'DELETE', `keys/${keys[2]!.id}?reason=over`)
  const credentials = [...tokens, forged, ...keys.map(({ key }) => key), `edge_${'Z'.repeat(43)}`, 'edge_malformed']
  const answers: Answer[] = []
  const trace: Fields = [['traceparent', callerSpan().traceparent]]
  for (const credential of credentials) {
    const all: Fields[] = [bearer(credential), [['X-Team-Key', credential]], [...bearer(credential), ['X-Team-Key', `${credential}x`]]]
    for (const fields of all) for (let i = 0; i < 2; i++) answers.push(await ask(edge.port, 'GET', '/a', [...fields, ...trace]))
  }
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 401, 403, 429]))
  const pages: unknown[] = []
  for (const credential of credentials) {
    const body = { method: 'GET', uri: '/a', headers: { authorization: `Bearer ${credential}` } }
    pages.push((await askAdmin(edge.adminPort, 'POST', 'explain', { body })).json)
  }
  for (const path of ['status', 'top', 'changes', 'overrides', 'policies', 'keys', 'bundle'])
    pages.push((await askAdmin(edge.adminPort, 'GET', path)).json)
  const metrics = await ask(edge.adminPort, 'GET', '/metrics', [['Authorization', `Bearer ${ADMIN_TOKEN}`]])
  expect(metrics.body).toContain('edge_callers_total{outcome="signature"}')
  // Of what became of the keys, the last is here, so all before it are.
  await stream.untilNamed('key_revoked')
  await stream.untilNamed('reject')
  await edge.service.stop('test')
  await until(() => stream.isClosed)
  const events = JSON.stringify([stream.events, stream.others])
  expect(events).toContain('key_created')
  const files = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'latin1')))
  expect(files.length).toBeGreaterThanOrEqual(3)
  expect(receiver.exports.length).toBeGreaterThan(0)
  const traces = receiver.exports.map(({ body }) => body)
  const said = [JSON.stringify(edge.log), metrics.body, JSON.stringify(pages), JSON.stringify(answers), events, ...files, ...traces].join(
    '\n',
  )
  for (const credential of credentials) {
    // The claims of a token are no secret; its signature is.
    expect(said).not.toContain(credential.slice(-40))
  }
})
