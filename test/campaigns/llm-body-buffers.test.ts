import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { CHAT, llmProxy } from '../support/llm/llm-proxy.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { RawClient } from '../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2
const BUDGET = { minuteTokens: 100_000_000, dayTokens: 100_000_000 }
/** What a process gains and loses all the time. */
const SLACK_BYTES = 6 * MIB

describe.each(PROXY_WIRES)('on the wire %s', (wire) => {
  const env = { EDGE_PROXY_WIRE: wire }

  test('a body in chunks of a byte each costs no more than four times its size', async () => {
    const bodyBytes = 120_000
    const backend = await HttpBackend.start((req) => void req.resume().on('end', () => ended++))
    let ended = 0
    const proxy = await llmProxy(backend, { ...BUDGET, env })
    const client = RawClient.connect(proxy.port)
    const before = memoryInUse()
    client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
    client.send(`${jsonOf(bodyBytes).replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`)
    await until(() => ended === 1)
    expect(memoryInUse() - before).toBeLessThan(4 * bodyBytes + SLACK_BYTES)
  })

  test('open streams hold nothing of their requests', async () => {
    const [streams, bodyBytes] = [8, 4 * MIB]
    const backend = await HttpBackend.start((req, res) => {
      const begin = (): void => void res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(': open\n\n')
      req.resume().on('end', begin)
    })
    const proxy = await llmProxy(backend, { ...BUDGET, env })
    const before = memoryInUse()
    for (let i = 0; i < streams; i++) {
      const client = RawClient.connect(proxy.port)
      client.send(headOf(bodyBytes))
      client.send(jsonOf(bodyBytes))
      await client.sees(': open')
    }
    expect(await proxy.edge.metric('edge_llm_open_streams')).toBe(streams)
    expect(memoryInUse() - before).toBeLessThan(SLACK_BYTES)
  })

  test('uploads that wait for memory are not read', async () => {
    const [waiting, bodyBytes] = [8, 4 * MIB]
    const proxy = await llmProxy(await HttpBackend.start(), { env: { ...env, EDGE_BODY_MEMORY: '4m', EDGE_MAX_BODY_BYTES: '4m' } })
    const body = Buffer.alloc(bodyBytes, 'x')
    RawClient.connect(proxy.port).send(headOf(bodyBytes))
    await until(async () => (await proxy.edge.metric('edge_proxy_body_memory_bytes')) === bodyBytes)
    const before = memoryInUse()
    for (let i = 0; i < waiting; i++) {
      const client = RawClient.connect(proxy.port)
      client.send(headOf(bodyBytes))
      client.send(body)
    }
    await until(async () => (await proxy.edge.metric('edge_proxy_waiting_uploads')) === waiting)
    // What would be read has been read when so many questions were answered after it.
    for (let i = 0; i < 20; i++) await proxy.edge.get('/metrics')
    expect(memoryInUse() - before).toBeLessThan(SLACK_BYTES)
  })
})

function headOf(bytes: number): string {
  return `POST ${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`
}

function jsonOf(bytes: number): string {
  return `{"messages":[],"x":"${'x'.repeat(bytes - 22)}"}`
}

/** Without what nobody holds any more: the heap and the buffers beside it. */
function memoryInUse(): number {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
