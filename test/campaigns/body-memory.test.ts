import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { CHAT } from '../support/llm/llm-proxy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxyEnv, RawClient, statusesIn } from '../support/proxy/proxy.ts'
import { ask } from '../support/service/http.ts'
import { metric, metricsOf } from '../support/service/metrics.ts'
import { until } from '../support/until.ts'
import { mortalEdge } from '../support/workers/mortal-edge.ts'
import { servingOn } from '../support/workers/workers.ts'

const MIB = 1024 ** 2
const ONE_MIB = { EDGE_BODY_MEMORY: '1m', EDGE_MAX_BODY_BYTES: '1m' }
const BUNDLE = bundle(1, policy('llm', { rules: [llmRule('budget', [], { tokens_per_minute: 100_000_000 })] }))

test('an upload that brings nothing ends for those that wait in other workers too', async () => {
  const backend = await HttpBackend.start()
  const cli = await servingOn(2, BUNDLE, { ...proxyEnv(backend.url), ...ONE_MIB })
  const silent = RawClient.connect(cli.port)
  silent.send(head(MIB))
  await until(async () => (await metric(cli.port, 'edge_proxy_body_memory_bytes')) === MIB)
  const clients: RawClient[] = []
  // The question's own connection is one of them, and the silent one another.
  while (Math.min(...(await metricsOf(cli.port)).connections) < 3) clients.push(RawClient.connect(cli.port))
  for (const client of clients) client.send(`${head(10)}0123456789`)
  await Promise.all(clients.map((client) => client.sees('hello')))
  expect(clients.map(({ received }) => statusesIn(received))).toEqual(clients.map(() => [200]))
  expect(statusesIn(silent.received)).toEqual([408])
})

test("a caller's share is one, whichever workers its uploads are on", async () => {
  const backend = await HttpBackend.start()
  const byUser = bundle(1, policy('llm', { rules: [llmRule('budget', ['header:x-user'], { tokens_per_minute: 100_000_000 })] }))
  // A share is a quarter of 7 MiB.
  const cli = await servingOn(2, byUser, { ...proxyEnv(backend.url), EDGE_BODY_MEMORY: '8m', EDGE_MAX_BODY_BYTES: '1m' })
  const clients: RawClient[] = []
  // The question's own connection is one of them.
  while (Math.min(...(await metricsOf(cli.port)).connections) < 8) clients.push(RawClient.connect(cli.port))
  const user = 'X-User: mallory\r\n'
  for (const client of clients) {
    client.send(head(MIB / 4, user))
    // Fast enough to be left alone.
    client.send(Buffer.alloc(MIB / 8))
  }
  const waiting = clients.length - 7
  await until(async () => (await metric(cli.port, 'edge_proxy_waiting_uploads')) === waiting)
  expect(await metric(cli.port, 'edge_proxy_body_memory_bytes')).toBe((7 * MIB) / 4)
  expect((await ask(cli.port, 'POST', CHAT, [['X-User', 'alice']], 'x'.repeat(MIB))).status).toBe(200)
})

test('the memory that a dead worker had claimed for bodies is free again', async () => {
  const backend = await HttpBackend.start()
  const mortal = await mortalEdge(2, { bundle: BUNDLE, env: { ...proxyEnv(backend.url), ...ONE_MIB } })
  const client = RawClient.connect(mortal.port)
  client.send(head(MIB))
  client.send(Buffer.alloc(MIB - 1, 'x'))
  await until(async () => (await metric(mortal.port, 'edge_proxy_body_memory_bytes')) === MIB)

  // One of the two has it.
  mortal.age()
  for (const worker of [1, 2]) {
    await mortal.host.terminate(worker)
    await mortal.untilReplaced(worker)
  }
  expect(await metric(mortal.port, 'edge_proxy_body_memory_bytes')).toBe(0)
  expect((await ask(mortal.port, 'POST', CHAT, [], 'x'.repeat(MIB))).status).toBe(200)
})

function head(bytes: number, fields = ''): string {
  return `POST ${CHAT} HTTP/1.1\r\nHost: a\r\n${fields}Content-Length: ${bytes}\r\n\r\n`
}
