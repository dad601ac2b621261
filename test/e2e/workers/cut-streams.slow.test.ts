import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { bearer } from '../../support/callers/asking-workers.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import type { Fields } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { servingOn, type Workers } from '../../support/workers/workers.ts'

const ACME: Fields = [['X-Org', 'acme']]

/** A service of three workers, each of which has streams of a client that sends these fields: of acme, if they do not depend on the service. */
async function streamsOnAll(
  published: object,
  env: Readonly<Record<string, string>> = {},
  fieldsFor = async (_edge: Workers): Promise<Fields> => ACME,
) {
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('data: 1\n\n')
  })
  const edge = await servingOn(3, published, { ...proxyEnv(backend.url), ...env })
  const fields = await fieldsFor(edge)
  const clients: StreamClient[] = []
  onTestFinished(() => {
    for (const client of clients) client.abort()
  })
  const metricsPort = 'EDGE_ADMIN_PORT' in env ? adminPortOf(edge) : edge.port
  // The system wakes whom it likes: there are more of them until each worker has some.
  for (;;) {
    const more = Array.from({ length: 20 }, () => new StreamClient(edge.port, '/', '', fields).untilText('data: 1'))
    clients.push(...(await Promise.all(more)))
    if (Math.min(...(await metricsOf(metricsPort)).connections) > 1) break
  }
  const allCut = async (event = 'streams_cut', count = 'streams'): Promise<void> => {
    await Promise.all(clients.map((client) => client.untilClosed()))
    expect(new Set(clients.map(({ outcome }) => outcome))).toEqual(new Set(['whole']))
    const told = await untilLogged(edge, event, 3)
    expect(told.reduce((sum, line) => sum + (line[count] as number), 0)).toBe(clients.length)
  }
  return { edge, clients, allCut }
}

test('a block ends the streams of all workers, those that decide nothing meanwhile included', async () => {
  const { edge, allCut } = await streamsOnAll(bundle(1))
  await replaceFile(
    edge.bundlePath,
    JSON.stringify(bundle(2, policy('p', { rules: [blockRule('all', undefined, { cut_streams: true })] }))),
  )
  await allCut()
})

test('an override that blocks ends the streams of its caller in all workers', async () => {
  const { edge, allCut } = await streamsOnAll(bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-org'], 100_000)] })), ADMIN_ENV)
  const values = { 'header:x-org': 'acme' }
  await new Operator(adminPortOf(edge)).override({ policy: 'p', rule: 'r', values, block: true, cut_streams: true })
  await allCut()
})

test('revoking a key ends its streams in all workers, and says how many they were', async () => {
  let id = ''
  const withKey = async (edge: Workers): Promise<Fields> => {
    const { json } = await askAdmin(adminPortOf(edge), 'POST', 'keys', { body: { labels: { team: 'a' }, reason: 'a test' } })
    id = json.id
    return bearer(json.key)
  }
  const { edge, clients, allCut } = await streamsOnAll({ ...bundle(1), callers: { mode: 'enforce', keys: {} } }, ADMIN_ENV, withKey)
  const { status, json } = await askAdmin(adminPortOf(edge), 'DELETE', `keys/${id}?reason=leaked`)
  expect([status, json]).toEqual([200, { streams_ended: clients.length }])
  await allCut('key_requests_ended', 'requests')
})
