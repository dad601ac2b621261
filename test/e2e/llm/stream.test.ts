import { describe, expect, test } from 'vitest'
import { both, CHAT, DAY_TOKENS, EMBEDDINGS, fakeLlm, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { recordedStreamsSuite } from '../../support/llm/recorded-streams-suite.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
const PLAIN = { include_partial_usage: false }

// All of them, also byte by byte: stream.slow.test.ts
recordedStreamsSuite(500, ['chat', 'completions', 'Responses', 'Anthropic'])

describe('oddities', () => {
  test('a byte order mark, mixed line ends, several data lines, unknown fields and comments survive', async () => {
    const text = [
      '\ufeffdata: {"id":"c","object":"chat.completion.chunk",\r\ndata: "choices":[{"index":0,"delta":{"content":"abcd"}}]}\r\n\r\n',
      ': heartbeat\n\n',
      'id: 7\nretry: 3000\nx-unknown: yes\ndata:{"choices":[{"index":0,"delta":{"content":"efgh"}}]}\n\n',
      'event: nothing\n\n',
      ':\r\r',
      'data\n\n',
      'data: not JSON\n\n',
      'data: {"choices":"not a list"}\n\n',
      'data: [DONE]\n\n',
    ].join('')
    const proxy = await llmProxy(await streamingLlm(text, 3), { streaming: PLAIN })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.bytes.equals(Buffer.from(text))).toBe(true)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })
})

describe('usage on each event', () => {
  test('it is what the stream has cost so far, in the specified shape', async () => {
    const proxy = await llmProxy(await fakeLlm({ tokens: 3 }))
    const client = await proxy.stream(CHAT, ASKED)
    const usages = client.data.slice(0, -1).map((chunk) => (chunk as { usage: unknown }).usage)
    const usage = (completion_tokens: number) => ({ prompt_tokens: 3, completion_tokens, total_tokens: 3 + completion_tokens })
    expect(usages).toEqual([usage(0), usage(1), usage(2), usage(3), usage(3)])
    expect(client.events.at(-1)).toEqual({ data: '[DONE]' })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
  })

  test('a null is replaced where it stands, an object that is there stays, and nothing else changes', async () => {
    const own = '"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18,"x":1.0}'
    const text = [
      'data: {"usage" : null,"n":1.50,"choices":[{"index":0,"delta":{"content":"abcd"}}]}\n\n',
      'data: { "choices":[ ] , "z":1e3 }\n\n',
      `data: {"choices":[],${own}}\n\n`,
      'data: {"other":true}\n\n',
      'data: [DONE]\n\n',
    ]
    const proxy = await llmProxy(await streamingLlm(text.join('')))
    const client = await proxy.stream(CHAT, ASKED)
    const added = '{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}'
    expect(client.text).toBe(
      [
        `data: {"usage" : ${added},"n":1.50,"choices":[{"index":0,"delta":{"content":"abcd"}}]}\n\n`,
        `data: { "choices":[ ] , "z":1e3 ,"usage":${added}}\n\n`,
        ...text.slice(2),
      ].join(''),
    )
    expect(await proxy.spent()).toEqual(both(18))
  })
})

describe('at once', () => {
  test('the head goes out before the first event, and each event as soon as it is complete', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin({ 'X-Backend': 'one' })
    await client.untilHead()
    expect([client.status, client.headers['x-backend'], client.headers['content-type']]).toEqual([
      200,
      'one',
      'text/event-stream; charset=utf-8',
    ])
    for (let i = 0; i < 5; i++) {
      await call.write(chatChunk({ content: `number ${i}` }))
      await client.untilText(`number ${i}`)
    }
    const half = chatChunk({ content: 'in two halves' })
    await call.write(half.slice(0, 40))
    await call.write(`${half.slice(40)}: a comment\n\n`)
    await client.untilText(': a comment\n\n')
    expect(client.text).toContain('in two halves')
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + Math.ceil((5 * 8 + 13) / 4)))
  })

  test("the decision's headers are on the stream, and the backend's own RateLimit fields are not", async () => {
    const backend = await scriptedLlm((call) => {
      call.begin({ 'RateLimit-Limit': '1', 'RateLimit-Remaining': '1', 'X-RateLimit-Remaining-Tokens': '77' })
      call.end(chatStream(['abcd']))
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.headers).toMatchObject({
      'ratelimit-limit': String(DAY_TOKENS),
      'ratelimit-remaining': String(DAY_TOKENS - 503),
      ratelimit: expect.stringMatching(/^"llm";r=7497;t=\d+$/),
      'x-ratelimit-remaining-tokens': '77',
    })
    expect(client.headers['content-length']).toBeUndefined()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
  })
})

describe('what activates the filter', () => {
  const OVER = chatStream(Array.from({ length: 50 }, () => 'abcd'))
  const TIGHT = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } }

  test.for([
    ['"stream": true in the body', { stream: true }, []],
    ['Accept: text/event-stream', {}, [['Accept', 'text/event-stream']]],
  ] as const)('%s', async ([, asked, fields]) => {
    const proxy = await llmProxy(await streamingLlm(OVER), TIGHT)
    const client = await proxy.open(CHAT, { messages: HELLO, ...asked }, fields).untilClosed()
    expect(client.text).toContain('"finish_reason":"length"')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 11))
  })

  test('embeddings have no completion to reserve, and theirs is settled by usage', async () => {
    const proxy = await llmProxy(await fakeLlm())
    await proxy.post(EMBEDDINGS, { input: 'hello there!' })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })
})
