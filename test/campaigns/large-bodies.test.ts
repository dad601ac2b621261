import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { CHAT, llmProxy } from '../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../support/llm/scripted-llm.ts'
import { PROXY_WIRES } from '../support/run/proxy-wire.ts'
import { ask } from '../support/service/http.ts'

const BYTES = 8 * 1024 * 1024
const LISTS = filled('[],', '[]')

function filled(value: string, last: string): string {
  return `{"max_tokens":1,"messages":[${value.repeat(Math.floor(BYTES / value.length))}${last}]}`
}

describe.each(PROXY_WIRES)('on the wire %s', (wire) => {
  const env = { EDGE_PROXY_WIRE: wire }

  describe('8 KiB of gzip that decode to 8 MiB', () => {
    test.for([
      ['{},', filled('{},', '{}'), 413, 'body_too_large'],
      ['[],', LISTS, 413, 'body_too_large'],
      ['{"content":"a"},', filled('{"content":"a"},', '{}'), 429, 'tpm_exceeded'],
      ['one text', `{"max_tokens":1,"messages":[{"content":"${'a'.repeat(BYTES)}"}]}`, 429, 'tpm_exceeded'],
    ] as const)('of %s are read a little in each turn of the event loop', async ([, body, status, reason]) => {
      const proxy = await llmProxy(await answeringLlm(200, {}), { env })
      const packed = gzipSync(body)
      const meter = new TurnMeter()
      const answer = await ask(proxy.port, 'POST', CHAT, [['Content-Encoding', 'gzip']], packed)
      const { longestMs, totalMs } = meter.stop()
      expect([answer.status, answer.headers['x-edge-reason']]).toEqual([status, reason])
      expect(longestMs).toBeLessThan(totalMs / 3)
    })

    test('of [ are refused', async () => {
      const proxy = await llmProxy(await answeringLlm(200, {}), { env })
      const { status } = await ask(proxy.port, 'POST', CHAT, [['Content-Encoding', 'gzip']], gzipSync(filled('[', '')))
      expect(status).toBe(413)
    })
  })

  test('8 MiB that come as they are are read a little in each turn of the event loop, too', async () => {
    const proxy = await llmProxy(await answeringLlm(200, {}), { env })
    const meter = new TurnMeter()
    const answer = await ask(proxy.port, 'POST', CHAT, [], LISTS)
    const { longestMs, totalMs } = meter.stop()
    expect(answer.status).toBe(413)
    expect(longestMs).toBeLessThan(totalMs / 3)
  })

  describe('other clients of a worker', () => {
    test('are answered while large bodies are read, compressed or not', async () => {
      const proxy = await llmProxy(await answeringLlm(200, {}), { env })
      let answered = 0
      const large = [gzipSync(LISTS), LISTS].map(async (body) => {
        const coding = typeof body === 'string' ? 'identity' : 'gzip'
        const { status } = await ask(proxy.port, 'POST', CHAT, [['Content-Encoding', coding]], body)
        answered++
        return status
      })
      let others = 0
      while (answered < large.length) {
        expect((await ask(proxy.port, 'GET', '/uncovered')).status).toBe(200)
        others++
      }
      expect(await Promise.all(large)).toEqual([413, 413])
      expect(others).toBeGreaterThan(3)
    })

    test('wait for no large answer: it is read a little in each turn', async () => {
      const body = gzipSync(`{"lists":${LISTS},"usage":{"prompt_tokens":0,"completion_tokens":5,"total_tokens":5}}`)
      const proxy = await llmProxy(await scriptedLlm((call) => call.answer(200, body, { 'Content-Encoding': 'gzip' })), { env })
      const meter = new TurnMeter()
      const answer = await proxy.post(CHAT, { messages: [], max_tokens: 7 })
      const { longestMs, totalMs } = meter.stop()
      expect(answer.status).toBe(200)
      expect(longestMs).toBeLessThan(totalMs / 3)
      expect(await proxy.spent()).toEqual({ minute: 5, day: 5 })
    })
  })
})

/** How much processor time the turns of the event loop take: the edge's, too, which runs in this process. */
class TurnMeter {
  readonly #start = process.cpuUsage()
  #turn = this.#start
  #longestMs = 0
  #isRunning = true

  constructor() {
    const onTurn = (): void => {
      this.#longestMs = Math.max(this.#longestMs, msSince(this.#turn))
      this.#turn = process.cpuUsage()
      if (this.#isRunning) setImmediate(onTurn)
    }
    setImmediate(onTurn)
  }

  stop(): { longestMs: number; totalMs: number } {
    this.#isRunning = false
    return { longestMs: this.#longestMs, totalMs: msSince(this.#start) }
  }
}

function msSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}
