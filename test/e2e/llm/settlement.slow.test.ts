import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { bucketRule, policy } from '../../support/bundles/bundles.ts'
import { ASKED, asking, MAX, RESERVED, streaming } from '../../support/llm/asked-stream.ts'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { anthropicStream, chatChunk, chatStream, FAILED_STREAMS, responsesStream, sse } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { until } from '../../support/until.ts'

/** Every way in which an answer can end, and what its budget has paid when it did. */

describe('before the end', () => {
  test('the whole reservation is held, from before the request is forwarded until after its last event but one', async () => {
    const { proxy, call, client } = await streaming()
    expect(await proxy.held()).toEqual(both(RESERVED))
    await call.write(chatChunk({}, 'stop'))
    await client.untilText('"stop"')
    expect(await proxy.held()).toEqual(both(RESERVED))
  })
})

describe('a stream that comes to its end', () => {
  test('the end of the body without [DONE] settles what was seen', async () => {
    const { proxy, call, client } = await streaming()
    call.end()
    await client.untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['whole', both(HELLO_TOKENS + 2)])
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('an event without its blank line at the end of the body is counted and forwarded', async () => {
    const { proxy, call, client } = await streaming()
    call.end(chatChunk({ content: 'ijkl' }).trimEnd())
    await client.untilClosed()
    expect(client.data.at(-1)).toMatchObject({ choices: [{ delta: { content: 'ijkl' } }] })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
  })

  test.for([
    ['response.completed', RESPONSES, responsesStream(['abcd'])],
    ['message_stop', MESSAGES, anthropicStream(['abcd'])],
  ] as const)('%s is an end like [DONE]', async ([, path, text]) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(path, { stream: true, input: 'hello there!', max_output_tokens: MAX })
    const call = await backend.next()
    call.begin()
    await call.write(text)
    await client.untilText(text.slice(-20))
    expect((await proxy.held()).day).toBeLessThan(MAX)
    const { day } = await proxy.held()
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(day))
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('what follows [DONE] passes and costs nothing', async () => {
    const { proxy, call, client } = await streaming()
    await call.write(sse('[DONE]'))
    call.end(`: bye\n\n${chatChunk({ content: 'a lot of text after the end' })}`)
    await client.untilClosed()
    expect(client.text).toContain(': bye\n\n')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test("the provider's usage wins over the estimate, above it and below it", async () => {
    for (const [prompt, completion] of [
      [40, 70],
      [1, 1],
      [0, 0],
    ] as const) {
      const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
      const chunk = sse({ id: 'c', object: 'chat.completion.chunk', choices: [], usage })
      const proxy = await llmProxy(await streamingLlm(chatStream(['abcd']).replace(sse('[DONE]'), chunk + sse('[DONE]'))))
      await proxy.stream(CHAT, ASKED)
      expect(await proxy.spent()).toEqual(both(prompt + completion))
    }
  })

  test('more than was reserved is charged too', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(['x'.repeat(400)])))
    await proxy.stream(CHAT, { ...ASKED, max_tokens: 10 })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 100))
  })
})

describe('a client that goes away', () => {
  test('before the head: it pays its prompt, and the backend call ends', async () => {
    const { proxy, call, client } = await asking()
    expect(await proxy.held()).toEqual(both(RESERVED))
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })

  test('after the head and before the first event: the same', async () => {
    const { proxy, call, client } = await asking()
    call.begin()
    await client.untilHead()
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })

  test('in mid-stream of a provider that has told its prompt: that is what it pays', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(MESSAGES, ASKED)
    const call = await backend.next()
    call.begin()
    const events = anthropicStream(['abcd', 'efgh']).split(/(?<=\n\n)/)
    await call.write(events.slice(0, 4).join(''))
    await client.untilText('abcd')
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(25 + 100 + 1))
  })

  test('after [DONE], while the connection is still open: nothing changes any more', async () => {
    const { proxy, call, client } = await streaming()
    await call.write(sse('[DONE]'))
    await client.untilText('[DONE]')
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('in the middle of a whole answer, before any text: it pays what was reserved', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { messages: HELLO, max_tokens: MAX })
    const call = await backend.next()
    call.begin({ 'Content-Type': 'application/json' })
    await call.write('{"choices":[')
    await client.untilText('choices')
    client.abort()
    await call.writeUntilAborted(' ')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + MAX))
  })

  test.for([
    ['text', '{"choices":[{"message":{"content":"abcdefgh"', 2],
    ['escapes, of which a pair is one character', `{"choices":[{"message":{"content":"${'\\ud83d\\ude00'.repeat(8)}"`, 2],
    ['text in one-byte chunks', '{"choices":[{"message":{"content":"abcdefgh"', 2, 1],
  ] as const)('in the middle of a whole answer: it pays its prompt and the %s that it has seen', async ([, text, completion, size = 0]) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { messages: HELLO, max_tokens: MAX })
    const call = await backend.next()
    call.begin({ 'Content-Type': 'application/json' })
    await call.writeInPieces(text, size)
    await client.untilText(text)
    client.abort()
    await call.writeUntilAborted(' ')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + completion))
  })

  test('before its body is whole: nothing was taken', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const socket = connect(proxy.port, '127.0.0.1')
    socket.write(`POST ${CHAT} HTTP/1.1\r\nHost: e\r\nContent-Length: 1000\r\n\r\n{"messages":`)
    socket.on('error', () => {})
    await proxy.edge.get('/livez')
    socket.resetAndDestroy()
    expect(await proxy.spent()).toEqual(both(0))
    expect(backend.calls).toEqual([])
  })
})

describe('a backend that fails', () => {
  test('a reset before the head: 502, and all of it goes back', async () => {
    const { proxy, call, client } = await asking()
    call.reset()
    await client.untilClosed()
    expect([client.status, client.headers['x-edge-reason']]).toEqual([502, 'backend_reset'])
    expect(await proxy.spent()).toEqual(both(0))
    expect(await proxy.settlements()).toEqual({ backend_failed: 1 })
  })

  test.each(['text/event-stream', 'application/json'])(
    'a reset behind the last bytes of an answer that only its connection ends: what has come is paid for (%s)',
    async (type) => {
      const backend = await RawBackend.start(({ socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\n\r\n${chatChunk({ content: 'abcd' })}`)
        socket.resetAndDestroy()
      })
      const proxy = await llmProxy(backend)
      for (let i = 0; i < 10; i++) expect((await proxy.open(CHAT, ASKED).untilClosed()).text).not.toMatch(/\[DONE\]/)
      const { day } = await proxy.spent()
      // A reset may overtake the text before it.
      expect([day % (HELLO_TOKENS + 1), day <= 10 * (HELLO_TOKENS + 1)]).toEqual([0, true])
      expect(await proxy.settlements()).toEqual({ backend_failed: 10 })
    },
  )

  test('a reset after [DONE]: the stream was settled', async () => {
    const { proxy, call, client } = await streaming()
    await call.write(sse('[DONE]'))
    await client.untilText('[DONE]')
    call.reset()
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('nobody listens: 502, and all of it goes back', async () => {
    const gone = await fakeLlm()
    await gone.close()
    const proxy = await llmProxy(gone)
    const answer = await proxy.post(CHAT, ASKED)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([502, 'backend_refused'])
    expect(await proxy.spent()).toEqual(both(0))
  })

  test.for([0, 5])('rubbish instead of a chunk after %d tokens: those are paid for', async (failAfterTokens) => {
    const proxy = await llmProxy(await fakeLlm({ fail: 'garbage', failAfterTokens }))
    const client = await proxy.stream(CHAT, ASKED)
    // Rubbish that comes along with the head finds the client not answered yet: then it is a 502.
    expect([client.status === 502 ? 'broken' : client.outcome, await proxy.spent()]).toEqual([
      'broken',
      both(failAfterTokens && HELLO_TOKENS + failAfterTokens),
    ])
    expect(await proxy.settlements()).toEqual({ backend_failed: 1 })
  })

  test('silence for too long: 504, and all of it goes back', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { env: { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '50' } })
    const answer = await proxy.post(CHAT, ASKED)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([504, 'backend_timeout'])
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('silence in mid-stream: the answer is broken off, and what was seen is paid for', async () => {
    const backend = await scriptedLlm((call) => {
      call.begin()
      return call.write(chatChunk({ content: 'abcd' }))
    })
    const proxy = await llmProxy(backend, { env: { EDGE_BACKEND_IDLE_TIMEOUT_MS: '50' } })
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(HELLO_TOKENS + 1)])
  })

  test('a status of 400 and more without usage: all of it goes back', async () => {
    for (const status of [400, 401, 429, 500, 503]) {
      const proxy = await llmProxy(await answeringLlm(status, { error: { message: 'no' } }))
      expect((await proxy.post(CHAT, ASKED)).status).toBe(status)
      expect([status, await proxy.spent()]).toEqual([status, both(0)])
    }
  })

  test('a status of 400 and more with usage: that is what it costs', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 }
    const proxy = await llmProxy(await answeringLlm(500, { error: { message: 'content filter' }, usage }))
    await proxy.post(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(12))
  })

  test('a stream with such a status: what it generated goes back, unless there is usage', async () => {
    const usage = sse({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } })
    for (const [text, expected] of [
      [chatStream(['abcd']), 0],
      [chatChunk({ content: 'abcd' }) + usage + sse('[DONE]'), 12],
    ] as const) {
      const backend = await scriptedLlm((call) => {
        call.begin({}, 500)
        call.end(text)
      })
      const proxy = await llmProxy(backend)
      const client = await proxy.stream(CHAT, ASKED)
      expect([client.status, await proxy.spent()]).toEqual([500, both(expected)])
    }
  })
})

describe('an error event', () => {
  test.for(Object.entries(FAILED_STREAMS))('%s: a stream that is an error and nothing else costs nothing', async ([, text]) => {
    const proxy = await llmProxy(await streamingLlm(text))
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, await proxy.spent()]).toEqual(['whole', both(0)])
  })

  test.for([CHAT, RESPONSES, MESSAGES])('as the first event of %s: it costs nothing', async (path) => {
    const proxy = await llmProxy(await fakeLlm({ fail: 'error-event' }))
    const client = await proxy.stream(path, { ...ASKED, input: 'hello there!' })
    expect(client.text).toContain('configured to fail')
    expect(await proxy.spent()).toEqual(both(0))
  })
})

describe('streaming.enabled: false', () => {
  const OFF = { enabled: false, include_partial_usage: true }

  test('it stands when the client goes away in mid-stream too', async () => {
    const { proxy, call, client } = await streaming(OFF)
    client.abort()
    await call.writeUntilAborted(': keep-alive\n\n')
    expect(await proxy.spent()).toEqual(both(RESERVED))
  })

  test('a whole answer is settled all the same', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { usage: { prompt_tokens: 4, completion_tokens: 6 } }), { streaming: OFF })
    await proxy.post(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(10))
  })

  test('and when the backend fails in mid-stream', async () => {
    const { proxy, call, client } = await streaming(OFF)
    call.reset()
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(RESERVED))
  })
})

describe('counters and time', () => {
  test('what goes back never lifts the minute above its burst', async () => {
    const { proxy, call, client } = await streaming()
    proxy.clock.advance(60_000)
    expect((await proxy.held()).minute).toBe(0)
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual({ minute: 0, day: HELLO_TOKENS + 2 })
  })

  test('plain buckets stay spent, whatever becomes of the answer', async () => {
    const plain = policy('plain', { selector: { pathPrefix: '/v1/chat' }, rules: [bucketRule('calls', [], 2, 1e-6)] })
    const proxy = await llmProxy(await answeringLlm(500, { error: {} }), { policies: [plain] })
    expect((await proxy.post(CHAT, ASKED)).status).toBe(500)
    expect((await proxy.post(CHAT, ASKED)).status).toBe(500)
    const third = await proxy.post(CHAT, ASKED)
    expect([third.status, third.headers['x-edge-reason']]).toEqual([429, 'token_bucket_exceeded'])
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('callers have budgets of their own', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(['abcd'])), { limitKeys: ['header:x-caller'] })
    await proxy.stream(CHAT, ASKED, [['X-Caller', 'ann']])
    expect(await proxy.spent([['X-Caller', 'ann']])).toEqual(both(HELLO_TOKENS + 1))
    expect(await proxy.spent([['X-Caller', 'ben']])).toEqual(both(0))
  })
})
