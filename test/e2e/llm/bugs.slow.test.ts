import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import {
  both,
  CHAT,
  EMBEDDINGS,
  fakeLlm,
  HELLO,
  HELLO_TOKENS,
  type LlmProxy,
  llmProxy,
  MESSAGES,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { anthropicStream, chatChunk, chatStream, responsesStream, sse, withLineEnds } from '../../support/llm/llm-streams.ts'
import { type ScriptedCall, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import type { StreamClient } from '../../support/llm/stream-client.ts'
import { until } from '../../support/until.ts'

/** Twenty bugs that users of other gateways met. Each is a promise here. */

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
const RESERVED = HELLO_TOKENS + 500

/** A stream of which two tokens have reached the client. */
async function streaming(): Promise<{ proxy: LlmProxy; client: StreamClient; call: ScriptedCall }> {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend)
  const client = proxy.open(CHAT, ASKED)
  const call = await backend.next()
  call.begin()
  await call.write(chatChunk({ content: 'abcdefgh' }))
  await client.untilText('abcdefgh')
  return { proxy, client, call }
}

describe('the budget', () => {
  test('1. requests at once never overspend it', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { dayTokens: 1000 })
    // Each may cost 133 of 1000: seven fit, however many come at once.
    const clients = Array.from({ length: 20 }, () => proxy.open(CHAT, { ...ASKED, max_tokens: 130 }))
    await until(() => clients.filter(({ status }) => status === 429).length === 13 && backend.calls.length === 7)
    expect((await proxy.held()).day).toBe(7 * 133)
    for (const call of backend.calls) {
      call.begin()
      call.end(chatStream(['x'.repeat(520)]))
    }
    for (const client of clients) await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(7 * 133))
  })

  test('2. a refund that comes late goes to the window that it was taken from', async () => {
    const { proxy, client, call } = await streaming()
    proxy.clock.advance(12 * 3_600_000) // midnight
    const second = proxy.open(CHAT, ASKED)
    await until(async () => (await proxy.held()).day === RESERVED)
    call.end(sse('[DONE]'))
    await client.untilClosed()
    // Yesterday got its refund; today still holds the second reservation, to the token. Its minute gets it back, up to the burst.
    expect(await proxy.held()).toEqual({ minute: HELLO_TOKENS + 2, day: RESERVED })
    second.abort()
    await second.untilClosed()
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS)
  })

  test('3. a rejected request consumes nothing', async () => {
    const proxy = await llmProxy(await fakeLlm())
    for (let i = 0; i < 20; i++) expect((await proxy.post(CHAT, { messages: HELLO, max_tokens: 50_000 })).status).toBe(429)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('4. a client that disconnects pays for what it saw, no more and no less', async () => {
    const { proxy, client, call } = await streaming()
    expect(await proxy.held()).toEqual(both(RESERVED))
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })

  test('5. a disconnect ends the backend call, before the head and after it', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const early = proxy.open(CHAT, ASKED)
    const first = await backend.next()
    early.abort()
    await until(() => first.isAborted)
    const late = proxy.open(CHAT, ASKED)
    const second = await backend.next()
    second.begin()
    await late.untilHead()
    late.abort()
    await until(() => second.isAborted)
    expect(await proxy.spent()).toEqual(both(2 * HELLO_TOKENS))
  })

  test('6. max_tokens: 1 beside max_completion_tokens: 5000 reserves 5000', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { messages: HELLO, max_tokens: 1, max_completion_tokens: 5000 })
    const call = await backend.next()
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 5000))
    call.answer(500, {})
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('7. the Responses API is recognised: its output is reserved and its usage read', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(RESPONSES, { stream: true, input: 'hello there!', max_output_tokens: 700 })
    const call = await backend.next()
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 700))
    call.begin()
    call.end(responsesStream(['abcd']))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(48))
  })
})

describe('counting', () => {
  test('8. cumulative usage replaces what was counted, and cached tokens are part of it', async () => {
    const usage = (completion_tokens: number) => ({
      prompt_tokens: 100,
      completion_tokens,
      total_tokens: 100 + completion_tokens,
      prompt_tokens_details: { cached_tokens: 90 },
    })
    const chunk = (completion: number) => sse({ id: 'c', choices: [{ index: 0, delta: { content: 'abcd' } }], usage: usage(completion) })
    const chat = await llmProxy(await streamingLlm([1, 2, 3].map(chunk).join('') + sse('[DONE]')))
    await chat.stream(CHAT, ASKED)
    expect(await chat.spent()).toEqual(both(103))
    const anthropic = await llmProxy(await streamingLlm(anthropicStream(['abcd'])))
    await anthropic.stream(MESSAGES, ASKED)
    expect(await anthropic.spent()).toEqual(both(25 + 100 + 15))
  })

  test('9. a usage chunk with empty choices is read and passed on', async () => {
    const last = 'data: {"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}\n\n'
    const proxy = await llmProxy(await streamingLlm(`${chatChunk({ content: 'abcd' })}${last}${sse('[DONE]')}`))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text.endsWith(`${last}data: [DONE]\n\n`)).toBe(true)
    expect(await proxy.spent()).toEqual(both(11))
  })

  test('10. CRLF streams are not held back, and their usage is seen', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(withLineEnds(chatChunk({ content: 'abcd' }), '\r\n'))
    await client.untilText('abcd')
    const usage = { prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 }
    call.end(withLineEnds(sse({ choices: [], usage }) + sse('[DONE]'), '\r\n'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(11))
  })

  test('11. a UTF-8 character split between chunks stays one character', async () => {
    const text = chatStream(['東京', '😀👍', 'é'])
    const proxy = await llmProxy(await streamingLlm(text, 1), { streaming: { include_partial_usage: false } })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.bytes.equals(Buffer.from(text))).toBe(true)
    expect(client.text).not.toContain('\ufffd')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))

    const changed = await (await llmProxy(await streamingLlm(text, 5))).stream(CHAT, ASKED)
    expect(changed.bytes.toString().replace(/,"usage":\{[^}]*\}/g, '')).toBe(text)
  })

  test('12. an event split between chunks is neither lost nor doubled', async () => {
    for (const bytes of [2, 3, 64, 173]) {
      const proxy = await llmProxy(await streamingLlm(chatStream(['abcd', 'efgh', 'ijkl']), bytes))
      const client = await proxy.stream(CHAT, ASKED)
      const said = client.data.flatMap((chunk) => (chunk as { choices?: { delta: { content?: string } }[] }).choices ?? [])
      expect(said.map(({ delta }) => delta.content ?? '').join('')).toBe('abcdefghijkl')
      expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
    }
  })

  test('13. a compressed stream is never parsed as text', async () => {
    const backend = await scriptedLlm((call) => {
      call.begin({ 'Content-Encoding': 'gzip' })
      call.end(gzipSync(chatStream(['abcd', 'efgh'])))
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.stream(CHAT, ASKED, [['Accept-Encoding', 'gzip']])
    expect([client.headers['content-encoding'], client.data.at(-1)]).toEqual([undefined, '[DONE]'])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })

  test('14. no event comes that the client did not ask for: usage goes into the events that are there', async () => {
    const fake = await fakeLlm({ tokens: 4 })
    const proxy = await llmProxy(fake)
    const client = await proxy.stream(CHAT, ASKED)
    expect(fake.requests[0]!.body.toString()).not.toContain('stream_options')
    expect(client.data.length).toBe(1 + 4 + 1 + 1)
    expect(client.data.slice(0, -1).every((chunk) => (chunk as { choices: unknown[] }).choices.length === 1)).toBe(true)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 4))
  })

  test('15. comments and heartbeats come through as they are', async () => {
    const text = `: OPENROUTER PROCESSING\n\n${chatChunk({ content: 'abcd' })}:\n\n: keep-alive\n${sse('[DONE]')}`
    const proxy = await llmProxy(await streamingLlm(text, 4), { streaming: { include_partial_usage: false } })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(text)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 1))
  })

  test('16. an explicit usage of zero is taken at its word', async () => {
    const zero = sse({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } })
    const proxy = await llmProxy(await streamingLlm(`${chatChunk({ content: 'abcdefgh' })}${zero}${sse('[DONE]')}`))
    await proxy.stream(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('17. the end of a stream counts once, however many ends there are', async () => {
    const { proxy, client, call } = await streaming()
    await call.write(sse('[DONE]') + sse('[DONE]'))
    await client.untilText('[DONE]\n\ndata: [DONE]')
    client.abort()
    call.reset()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })
})

describe('the wire', () => {
  test('18. Retry-After is the real wait, not the whole window', async () => {
    const fake = await fakeLlm({ tokens: 600 })
    const proxy = await llmProxy(fake, { minuteTokens: 600 })
    await proxy.post(CHAT, { messages: [], max_tokens: 600 })
    for (const [tokens, seconds] of [
      [10, '1'],
      [55, '6'],
      [300, '30'],
      [600, '60'],
    ] as const) {
      expect((await proxy.post(CHAT, { messages: [], max_tokens: tokens })).headers['retry-after']).toBe(seconds)
    }
  })

  test('19. the head and each event pass at once, without waiting for a buffer to fill', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await client.untilHead()
    expect(client.text).toBe('')
    for (const word of ['one', 'two', 'three']) {
      await call.write(chatChunk({ content: word }))
      await client.untilText(word)
    }
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 3))
  })

  test('20. an abort, at whatever moment and in whatever way, never takes the process along', async () => {
    const fake = await fakeLlm({ tokens: 100 })
    const proxy = await llmProxy(fake, { minuteTokens: 40_000, dayTokens: 20_000 })
    const failures: unknown[] = []
    const onFailure = (error: unknown) => void failures.push(error)
    process.on('uncaughtException', onFailure).on('unhandledRejection', onFailure)
    try {
      const body = JSON.stringify({ ...ASKED, max_tokens: 100 })
      // Who is not gone by the end of its answer goes then.
      const head = `POST ${CHAT} HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`
      await Promise.all(
        Array.from({ length: 60 }, (_, i) => {
          return new Promise<void>((resolve) => {
            let received = 0
            const socket = connect(proxy.port, '127.0.0.1', () => socket.write(head + body))
            socket.on('error', () => {})
            socket.on('close', () => resolve())
            const leave = () => (i % 2 === 0 ? socket.resetAndDestroy() : socket.destroy())
            if (i % 4 === 3) socket.write('', leave)
            socket.on('data', (chunk) => {
              received += chunk.length
              if (received >= i * 400) leave()
            })
            socket.on('end', () => socket.destroy())
          })
        }),
      )
      await proxy.untilQuiet()
    } finally {
      process.off('uncaughtException', onFailure).off('unhandledRejection', onFailure)
    }
    expect(failures).toEqual([])
    const answer = await proxy.post(EMBEDDINGS, { input: '' })
    expect(answer.status).toBe(200)
    // Nothing leaked: what is spent is what the settlements say.
    const { minute, day } = await proxy.spent()
    const used = await proxy.edge.metric('edge_llm_tokens_used_total{policy="llm",rule="budget"}')
    expect([minute, day]).toEqual([used, used])
    const allowed = await proxy.edge.metric('edge_decisions_total{action="allow",reason="all_rules_passed",policy="llm",route="/"}')
    expect(Object.values(await proxy.settlements()).reduce((sum, count) => sum + count, 0)).toBe(allowed)
  })
})
