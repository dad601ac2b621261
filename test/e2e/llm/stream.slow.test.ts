import { describe, expect, test } from 'vitest'
import { MAX_EVENT_BYTES } from '../../../src/llm/stream-filter.ts'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { recordedStreamsSuite } from '../../support/llm/recorded-streams-suite.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
const PLAIN = { include_partial_usage: false }

recordedStreamsSuite(1)
recordedStreamsSuite(500)

describe('oddities', () => {
  test('bytes that are no UTF-8 pass as they are', async () => {
    const bytes = Buffer.concat([Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xfe, 0x0a, 0x0a]), Buffer.from(chatStream(['abcd']))])
    const proxy = await llmProxy(await streamingLlm(bytes, 1), { streaming: PLAIN })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.bytes.equals(bytes)).toBe(true)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
  })

  test('an event above the bound passes in pieces and is counted by its text', async () => {
    const large = sse({ choices: [{ index: 0, delta: { content: 'x'.repeat(MAX_EVENT_BYTES) } }] })
    const text = `${chatChunk({ content: 'abcd' })}${large}${sse('[DONE]')}`
    const proxy = await llmProxy(await streamingLlm(text, 100_000), { streaming: PLAIN })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.bytes.equals(Buffer.from(text))).toBe(true)
    const used = 'edge_llm_tokens_used_total{policy="llm",rule="budget"}'
    expect(await proxy.edge.metric(used)).toBe(HELLO_TOKENS + Math.ceil((4 + MAX_EVENT_BYTES) / 4))
  })
})

describe('usage on each event', () => {
  test('events of other dialects carry none', async () => {
    for (const [path, body] of [
      [RESPONSES, { input: 'hello there!', max_output_tokens: 5 }],
      [MESSAGES, { messages: HELLO, max_tokens: 5 }],
    ] as const) {
      const fake = await fakeLlm({ tokens: 5 })
      const proxy = await llmProxy(fake)
      const direct = await llmProxy(fake, { streaming: { enabled: false } })
      const client = await proxy.stream(path, body)
      expect(client.text).toBe((await direct.stream(path, body)).text)
      expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
    }
  })
})

describe('at once', () => {
  test("the backend's Content-Length does not survive where bytes are added", async () => {
    const text = chatStream(['abcd'])
    const backend = await scriptedLlm((call) => {
      call.begin({ 'Content-Length': Buffer.byteLength(text) })
      call.end(text)
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, client.headers['content-length'], client.events.at(-1)]).toEqual(['whole', undefined, { data: '[DONE]' }])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
  })
})

describe('what activates the filter', () => {
  const OVER = chatStream(Array.from({ length: 50 }, () => 'abcd'))
  const TIGHT = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } }

  test.for([
    ['Accept in a list, in any case', {}, [['Accept', 'application/json, Text/Event-Stream;q=0.9']]],
    ['both', { stream: true }, [['Accept', 'text/event-stream']]],
    ['"stream": "true", which lenient backends take for true', { stream: 'true' }, []],
    ['"stream": 1, for the same reason', { stream: 1 }, []],
  ] as const)('%s', async ([, asked, fields]) => {
    const proxy = await llmProxy(await streamingLlm(OVER), TIGHT)
    const client = await proxy.open(CHAT, { messages: HELLO, ...asked }, fields).untilClosed()
    expect(client.text).toContain('"finish_reason":"length"')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 11))
  })

  test.for([
    ['nothing', {}, []],
    ['"stream": false', { stream: false }, [['Accept', 'application/json']]],
    ['"stream": null', { stream: null }, [['Accept', '*/*']]],
    ['another type that begins alike', {}, [['Accept', 'text/event-streams']]],
  ] as const)('%s does not: the stream is counted, never cut, and not a byte is added', async ([, asked, fields]) => {
    const proxy = await llmProxy(await streamingLlm(OVER), TIGHT)
    const client = await proxy.open(CHAT, { messages: HELLO, ...asked }, fields).untilClosed()
    expect(client.text).toBe(OVER)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 50))
  })

  test('an answer that is no stream though one was asked for passes and is counted as a whole', async () => {
    const body = { choices: [{ index: 0, message: { role: 'assistant', content: 'abcdefgh' } }] }
    const backend = await scriptedLlm((call) => call.answer(200, body))
    const proxy = await llmProxy(backend, { config: { max_completion_tokens: 1 }, streaming: { buffer_tokens: 1 } })
    const answer = await proxy.post(CHAT, ASKED)
    expect(JSON.parse(answer.body)).toEqual(body)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })
})

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
