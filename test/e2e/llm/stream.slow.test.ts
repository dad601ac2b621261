import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { recordedStreamsSuite } from '../../support/llm/recorded-streams-suite.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }

recordedStreamsSuite(1)

describe('back-pressure', () => {
  test('a client that reads nothing stops the backend, and gets everything when it reads on', async () => {
    const events = 20_000
    // More than the sockets on the way can hold.
    const line = `${chatChunk({ content: 'abcd' })}: ${'x'.repeat(1500)}\n\n`
    let written = 0
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      for (; written < events; written += 10) {
        if (!call.writeNow(line.repeat(10))) await call.drained()
      }
      call.end(sse('[DONE]'))
    })
    const proxy = await llmProxy(backend, { minuteTokens: 200_000, dayTokens: 90_000 })
    const client = proxy.open(CHAT, { ...ASKED, max_tokens: 30_000 })
    await client.untilHead()
    client.pause()
    const moving = async () => {
      const before = written
      // The proxy has every chance to read on.
      for (let turns = 0; turns < 20; turns++) await proxy.edge.get('/livez')
      return written !== before
    }
    await until(async () => !(await moving()))
    expect(written).toBeLessThan(events)
    client.resume()
    await client.untilClosed()
    expect(client.events.length).toBe(events + 1)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + events))
  })
})
