import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { CHAT } from '../support/llm/llm-proxy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxyEnv, RawClient, statusesIn } from '../support/proxy/proxy.ts'
import { ask } from '../support/service/http.ts'
import { metricsOf } from '../support/service/metrics.ts'
import { describeWithProc, memoryKib } from '../support/service/process-facts.ts'
import { until } from '../support/until.ts'
import { servingOn } from '../support/workers/workers.ts'

const MIB = 1024 ** 2
const UPLOADS = 60
const ANNOUNCED = 15 * MIB
const SENT = Buffer.alloc(14 * MIB, 'x')
const MEMORY_MIB = 256
const FITTING = Math.floor((MEMORY_MIB * MIB) / ANNOUNCED)
/** Buffers of uploads that were ended are in memory until they are collected. All of the uploads would have 840 MiB. */
const ALLOWED_MIB = 2 * MEMORY_MIB

describeWithProc('uploads that stop', () => {
  for (const framing of ['by their length', 'in chunks'] as const) {
    test(`${UPLOADS} of them, ${framing}, end with 408 or 503 while others are served, and the memory of the process stays bounded`, async () => {
      const isChunked = framing === 'in chunks'
      const backend = await HttpBackend.start()
      const rules = [llmRule('budget', [], { tokens_per_minute: 100_000_000 })]
      const cli = await servingOn(2, bundle(1, policy('llm', { rules })), proxyEnv(backend.url))
      for (let i = 0; i < 20; i++) expect((await ask(cli.port, 'POST', CHAT, [], 'x'.repeat(MIB))).status).toBe(200)
      const before = await memoryKib(cli, 'VmHWM')
      const size = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${ANNOUNCED}`
      const upload = (): RawClient => {
        const client = RawClient.connect(cli.port)
        client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\n${size}\r\n\r\n${isChunked ? `${SENT.length.toString(16)}\r\n` : ''}`)
        client.socket.write(SENT)
        return client
      }
      const clients = Array.from({ length: UPLOADS }, upload)
      const statuses = (): number[] => clients.flatMap(({ received }) => statusesIn(received))
      await until(async () => (await metricsOf(cli.port)).value('edge_proxy_waiting_uploads') > 0)
      // A client that is told to come again does.
      await until(async () => (await ask(cli.port, 'POST', CHAT, [], 'x'.repeat(MIB))).status === 200)
      // Those that nobody waits for any more may stay.
      await until(() => clients.filter(({ received }) => received !== '').length >= UPLOADS - FITTING)
      // Where sending takes this machine longer than others wait, nobody waits for those who have stopped by now: one more does.
      await until(async () => {
        if ((await metricsOf(cli.port)).value('edge_proxy_waiting_uploads') === 0) clients.push(upload())
        return statuses().includes(408)
      })
      expect(statuses().filter((status) => status !== 408 && status !== 503)).toEqual([])
      const grownMib = ((await memoryKib(cli, 'VmHWM')) - before) / 1024
      expect(grownMib).toBeLessThan(ALLOWED_MIB)
      for (const client of clients) client.socket.destroy()
      await until(async () => (await metricsOf(cli.port)).value('edge_proxy_body_memory_bytes') === 0)
    })
  }
})
