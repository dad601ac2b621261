import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT } from '../../support/llm/llm-proxy.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'

const MIB = 1024 ** 2

test('the memory that a dead worker had claimed for bodies is free again', async () => {
  const backend = await HttpBackend.start()
  const budget = llmRule('budget', [], { tokens_per_minute: 100_000_000 })
  const mortal = await mortalEdge(2, {
    bundle: bundle(1, policy('llm', { rules: [budget] })),
    env: { ...proxyEnv(backend.url), EDGE_BODY_MEMORY: '1m', EDGE_MAX_BODY_BYTES: '1m' },
  })
  const client = RawClient.connect(mortal.port)
  client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: ${MIB}\r\n\r\n`)
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
}, 60_000)
