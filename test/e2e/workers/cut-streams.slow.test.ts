import { expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { blockRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

test('a block ends the streams of all workers, those that decide nothing meanwhile included', async () => {
  const backend = await HttpBackend.start((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.write('data: 1\n\n')
  })
  const edge = await servingOn(3, bundle(1), proxyEnv(backend.url))
  const clients: StreamClient[] = []
  onTestFinished(() => {
    for (const client of clients) client.abort()
  })
  // The system wakes whom it likes: there are more of them until each worker has some.
  for (;;) {
    const more = Array.from({ length: 20 }, () => new StreamClient(edge.port, '/', '', [['X-Org', 'acme']]).untilText('data: 1'))
    clients.push(...(await Promise.all(more)))
    if (Math.min(...(await metricsOf(edge.port)).connections) > 1) break
  }
  await replaceFile(
    edge.bundlePath,
    JSON.stringify(bundle(2, policy('p', { rules: [blockRule('all', undefined, { cut_streams: true })] }))),
  )
  await Promise.all(clients.map((client) => client.untilClosed()))
  expect(new Set(clients.map(({ outcome }) => outcome))).toEqual(new Set(['whole']))
  await until(() => edge.logged('streams_cut').length === 3)
  expect(edge.logged('streams_cut').reduce((sum, { streams }) => sum + (streams as number), 0)).toBe(clients.length)
})
