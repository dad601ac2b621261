import { Agent, request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, type LlmProxyOptions, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse, withLineEnds } from '../../support/llm/llm-streams.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

const ASKED = { stream: true, messages: HELLO }
const WORDS = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(3, '0')}`)

/** Ten tokens are allowed, and every token is looked at: the eleventh cuts. */
function tight(streaming: object = {}): LlmProxyOptions {
  return { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1, ...streaming } }
}
const CHARGED = HELLO_TOKENS + 11
const USAGE = { prompt_tokens: 3, completion_tokens: 11, total_tokens: 14 }

describe('graceful_close', () => {
  test('chat: one closing choice for each that is still open', async () => {
    const chunks = [
      chatChunk({ content: 'abcd' }, null, 0),
      chatChunk({ content: 'abcd' }, null, 1),
      chatChunk({ content: 'abcd' }, null, 2),
      chatChunk({}, 'stop', 1),
      chatChunk({ content: 'x'.repeat(40) }, null, 2),
    ]
    const proxy = await llmProxy(await streamingLlm(chunks.join('')), tight())
    const client = await proxy.stream(CHAT, { ...ASKED, n: 3 })
    expect((client.data.at(-2) as { choices: unknown }).choices).toEqual([
      { index: 0, delta: {}, finish_reason: 'length' },
      { index: 2, delta: {}, finish_reason: 'length' },
    ])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 13))
  })

  test('chat that names neither id nor index: the bare shape', async () => {
    const text = sse({ choices: [{ delta: { content: 'x'.repeat(44) } }] })
    const proxy = await llmProxy(await streamingLlm(text), tight())
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.data).toEqual([{ choices: [{ delta: {}, finish_reason: 'length' }], usage: USAGE }, '[DONE]'])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })
})

describe('error_chunk', () => {
  const ERROR = { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' }

  test('chat without partial usage', async () => {
    const streaming = { on_limit_exceeded: 'error_chunk', include_partial_usage: false }
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight(streaming))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.data.slice(-2)).toEqual([{ error: ERROR }, '[DONE]'])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })
})

describe('where it cuts', () => {
  /** Tokens that reached the client, one a word. */
  const seen = (text: string) => WORDS.filter((word) => text.includes(word)).length

  test('events before the truncating one pass, though they came in the same chunk', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, tight())
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(chatStream(WORDS))
    await client.untilClosed()
    expect([client.outcome, seen(client.text)]).toEqual(['whole', 10])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('no matter how the stream is framed and chunked', async () => {
    for (const [lineEnd, bytes] of [
      ['\r\n', 7],
      ['\r', 30],
      ['\n', 170],
    ] as const) {
      const proxy = await llmProxy(await streamingLlm(withLineEnds(chatStream(WORDS), lineEnd), bytes), tight())
      const client = await proxy.stream(CHAT, ASKED)
      expect([client.outcome, seen(client.text), client.data.at(-1)]).toEqual(['whole', 10, '[DONE]'])
      expect(client.data.at(-2)).toMatchObject({ usage: USAGE })
      expect(await proxy.spent()).toEqual(both(CHARGED))
    }
  })

  test("the client's own max_tokens never cuts, and without max_completion_tokens nothing does", async () => {
    const text = chatStream(WORDS)
    const proxy = await llmProxy(await streamingLlm(text), { streaming: { buffer_tokens: 1, include_partial_usage: false } })
    const client = await proxy.stream(CHAT, { ...ASKED, max_tokens: 5 })
    expect(client.text).toBe(text)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 50))
  })

  test('all that a model generates counts: choices, refusals, reasoning, calls', async () => {
    const ten = 'x'.repeat(10)
    const text = [
      chatChunk({ content: ten }, null, 0),
      chatChunk({ refusal: ten }, null, 1),
      chatChunk({ reasoning_content: ten }, null, 0),
      chatChunk({ tool_calls: [{ index: 0, function: { name: 'not counted', arguments: ten } }] }, null, 0),
      chatChunk({ content: 'w' }, null, 0),
      chatChunk({ content: 'beyond' }, null, 0),
    ].join('')
    const proxy = await llmProxy(await streamingLlm(text), tight())
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.text.includes('arguments'), client.text.includes('"w"'), client.text.includes('beyond')]).toEqual([true, false, false])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('the estimate is over all text so far, not rounded up for each delta', async () => {
    const text = chatStream(Array.from({ length: 40 }, () => 'a'))
    const proxy = await llmProxy(await streamingLlm(text), tight({ include_partial_usage: false }))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(text)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 10))
  })
})

describe('switched off', () => {
  test('enabled: false touches nothing', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight({ enabled: false }))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(chatStream(WORDS))
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 10))
  })
})

describe('after a cut', () => {
  test('the connection of the client is good for another request, and the budget pays for both', async () => {
    const proxy = await llmProxy(await fakeLlm(), tight())
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ports = new Set<number>()
    for (let i = 0; i < 3; i++) {
      const text = await new Promise<string>((resolve, reject) => {
        const req = request({ port: proxy.port, host: '127.0.0.1', method: 'POST', path: CHAT, agent }, (res) => {
          ports.add(res.socket.localPort!)
          let body = ''
          res.on('data', (chunk) => {
            body += chunk
          })
          res.on('end', () => resolve(body))
          res.on('error', reject)
        })
        req.on('error', reject)
        req.end(JSON.stringify(ASKED))
      })
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    }
    agent.destroy()
    expect(ports.size).toBe(1)
    expect(await proxy.spent()).toEqual(both(3 * CHARGED))
    expect(await proxy.settlements()).toEqual({ truncated: 3 })
  })
})
