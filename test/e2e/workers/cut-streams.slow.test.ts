import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, adminPortOf } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { servingOn } from '../../support/workers/workers.ts'

/** A service of three workers, each of which has streams of acme. */
async function streamsOnAll(published: object, env: Readonly<Record<string, string>> = {}) {
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('data: 1\n\n')
  })
  const edge = await servingOn(3, published, { ...proxyEnv(backend.url), ...env })
  const clients: StreamClient[] = []
  onTestFinished(() => {
    for (const client of clients) client.abort()
  })
  const metricsPort = 'EDGE_ADMIN_PORT' in env ? adminPortOf(edge) : edge.port
  // The system wakes whom it likes: there are more of them until each worker has some.
  for (;;) {
    const more = Array.from({ length: 20 }, () => new StreamClient(edge.port, '/', '', [['X-Org', 'acme']]).untilText('data: 1'))
    clients.push(...(await Promise.all(more)))
    if (Math.min(...(await metricsOf(metricsPort)).connections) > 1) break
  }
  const allCut = async (): Promise<void> => {
    await Promise.all(clients.map((client) => client.untilClosed()))
    expect(new Set(clients.map(({ outcome }) => outcome))).toEqual(new Set(['whole']))
    const told = await untilLogged(edge, 'streams_cut', 3)
    expect(told.reduce((sum, { streams }) => sum + (streams as number), 0)).toBe(clients.length)
  }
  return { edge, allCut }
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
