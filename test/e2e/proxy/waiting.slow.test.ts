import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { metric } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'

test('1,000 requests wait in a worker, the next gets 429, and all of them get their answer in the end', async () => {
  const held: (() => void)[] = []
  const backend = await HttpBackend.start((req, res) => {
    if (req.url === '/first') held.push(() => void res.end('first'))
    else res.end('ok')
  })
  const rule = { ...concurrencyRule('r', ['header:x-k'], 1), wait_seconds: 60 }
  const env = { EDGE_WORKERS: '1', ...ADMIN_ENV }
  const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: [rule] })), env })
  const waiting = (): Promise<number> => metric(edge.adminPort, 'edge_waiting_requests')
  const asks = (path: string, caller: number): RawClient => {
    const client = RawClient.connect(edge.port)
    client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\nX-K: ${caller}\r\nX-Forwarded-For: 198.51.100.${caller}\r\n\r\n`)
    return client
  }
  for (let caller = 0; caller < 101; caller++) asks('/first', caller)
  await until(() => held.length === 101)
  const clients: RawClient[] = []
  for (let i = 0; i < 1000; i++) clients.push(asks('/', i % 100))
  await until(async () => (await waiting()) === 1000)
  expect((await asks('/', 100).next()).status).toBe(429)
  for (const release of held) release()
  for (const client of clients) expect((await client.next()).status).toBe(200)
  expect([await waiting(), await metric(edge.adminPort, 'edge_wait_seconds_count')]).toEqual([0, 1000])
})
