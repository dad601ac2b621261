import { expect, test } from 'vitest'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient, servingProxy } from '../../support/proxy/proxy.ts'

test('the bound of connections to the backend holds for all workers together, and none of them keeps the others waiting', async () => {
  let [open, most] = [0, 0]
  const backend = await HttpBackend.start(async (_req, res) => {
    most = Math.max(most, ++open)
    res.on('close', () => open--)
    await new Promise((resolve) => setImmediate(resolve))
    res.end('hello')
  })
  const limits = { EDGE_WORKERS: '3', EDGE_BACKEND_MAX_CONNECTIONS: '1', EDGE_BACKEND_QUEUE_MS: '600000' }
  const cli = await servingProxy(backend, limits)
  const clients = Array.from({ length: 30 }, () => RawClient.connect(cli.port))
  for (const client of clients) client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  for (const client of clients) await client.sees('hello')
  expect(most).toBe(1)
})
