import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { ASKED, RESERVED, streaming } from '../../support/llm/asked-stream.ts'
import { both, CHAT, DAY_TOKENS, HELLO_TOKENS, llmProxy, MINUTE_TOKENS } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

/** Every way in which an answer can end, and what its budget has paid when it did. */

const KEEP = { config: { without_usage: 'keep' } }

describe('a stream that comes to its end', () => {
  test('[DONE] settles at once, before the backend closes its answer', async () => {
    const { proxy, call, client } = await streaming()
    await call.write(sse('[DONE]'))
    await client.untilText('[DONE]')
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 2))
    call.end()
    await client.untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['whole', both(HELLO_TOKENS + 2)])
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test.each([
    ['in the same read', false],
    ['later', true],
  ])('text after the end would be free, so it is not passed on: %s', async (_, isLater) => {
    const { proxy, call, client } = await streaming()
    const text = `${sse({ choices: [], note: 'no text' })}${chatChunk({ content: 'w777' })}${chatChunk({ content: 'w778' })}`
    if (isLater) {
      await call.write(sse('[DONE]'))
      await client.untilText('[DONE]')
      await call.write(text)
    } else await call.write(sse('[DONE]') + text)
    await client.untilClosed()
    await until(() => call.isAborted)
    expect([client.outcome, await proxy.spent()]).toEqual(['whole', both(HELLO_TOKENS + 2)])
    expect(client.text).toContain('no text')
    expect(client.text).not.toContain('w77')
  })

  test('an event after the end that is too large to be read is not passed on either', async () => {
    const { proxy, call, client } = await streaming()
    await call.write(sse('[DONE]'))
    await client.untilText('[DONE]')
    await call.write(chatChunk({ content: 'x'.repeat(2 * 1024 * 1024) }))
    await client.untilClosed()
    expect([client.outcome, client.text.includes('xxx'), await proxy.spent()]).toEqual(['whole', false, both(HELLO_TOKENS + 2)])
  })
})

describe('a client that goes away', () => {
  test('in mid-stream: it pays its prompt and what was seen, and the backend call ends', async () => {
    const { proxy, call, client } = await streaming()
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })
})

describe('a backend that fails', () => {
  test('a reset in mid-stream: the client sees a broken answer, and pays its prompt and what was seen', async () => {
    const { proxy, call, client } = await streaming()
    call.reset()
    await client.untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(HELLO_TOKENS + 2)])
    expect(await proxy.settlements()).toEqual({ backend_failed: 1 })
  })

  test('a reset behind the count of the provider, which is charged, also with `keep`', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, KEEP)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'abcd' }) + sse({ choices: [], usage: { prompt_tokens: 70, completion_tokens: 7 } }))
    await client.untilText('"prompt_tokens":70')
    call.reset()
    await client.untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(77)])
  })

  test.each([
    ['estimate', 0, HELLO_TOKENS + 1],
    ['keep', RESERVED, RESERVED],
  ] as const)('a reset with `%s` costs %d behind the head, and %d behind text', async (without_usage, empty, begun) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { config: { without_usage } })
    const broken = async (text: string): Promise<number> => {
      const { day: before } = await proxy.spent()
      const client = proxy.open(CHAT, ASKED)
      const call = await backend.next()
      call.begin()
      await client.untilHead()
      await call.write(`: seen\n\n${text}`)
      await client.untilText(': seen')
      call.reset()
      await client.untilClosed()
      return (await proxy.spent()).day - before
    }
    expect([await broken(''), await broken(chatChunk({ content: 'abcd' }))]).toEqual([empty, begun])
  })

  test.each([
    ['estimate', 0],
    ['keep', RESERVED],
  ] as const)('silence before the head, and before the first event, costs %s: %d each', async (without_usage, cost) => {
    let calls = 0
    const backend = await scriptedLlm((call) => {
      if (++calls === 2) call.begin()
    })
    const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '50', EDGE_BACKEND_IDLE_TIMEOUT_MS: '50' }
    const proxy = await llmProxy(backend, { config: { without_usage }, env })
    expect((await proxy.post(CHAT, ASKED)).headers['x-edge-reason']).toBe('backend_timeout')
    expect(await proxy.spent()).toEqual(both(cost))
    const client = await proxy.open(CHAT, ASKED).untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(2 * cost)])
    expect(await proxy.settlements()).toEqual({ backend_failed: 2 })
  })

  test('a whole answer that breaks off costs the text that was sent, and its usage if that has come', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const broken = async (text: string): Promise<number> => {
      const { day: before } = await proxy.spent()
      const client = proxy.open(CHAT, { ...ASKED, stream: false })
      const call = await backend.next()
      call.begin({ 'Content-Type': 'application/json', 'Content-Length': '9000' })
      await client.untilHead()
      await call.write(text)
      await client.untilText(text)
      call.reset()
      await client.untilClosed()
      return (await proxy.spent()).day - before
    }
    // What known APIs have before their text is free, and so is as much of any other.
    expect(await broken('{"id":"x",')).toBe(HELLO_TOKENS)
    expect(await broken(`{"answer":"${'All work '.repeat(500)}`)).toBe(HELLO_TOKENS + Math.ceil((11 + 4500 - 1024) / 4))
    expect(await broken('{"choices":[{"message":{"content":"abcdefgh')).toBe(HELLO_TOKENS + 2)
    expect(await broken('{"usage":{"prompt_tokens":70,"completion_tokens":7},"choices":[{')).toBe(77)
  })
})

describe('an error event', () => {
  test('after text: what was seen is paid for', async () => {
    const { proxy, call, client } = await streaming()
    call.end(sse({ error: { message: 'Internal error', type: 'server_error', param: null, code: null } }))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })
})

describe('streaming.enabled: false', () => {
  const OFF = { enabled: false, include_partial_usage: true }

  test('the stream passes untouched and the reservation stands', async () => {
    const text = chatStream(['abcd', 'efgh'])
    const proxy = await llmProxy(await streamingLlm(text), { streaming: OFF, config: { max_completion_tokens: 1 } })
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.text, await proxy.spent()]).toEqual([text, both(HELLO_TOKENS + 1)])
  })
})

describe('counters and time', () => {
  test('a stream over midnight is settled in the day that it was taken from', async () => {
    const { proxy, call, client } = await streaming()
    expect((await proxy.held()).day).toBe(RESERVED)
    proxy.clock.advance(12 * 3_600_000)
    expect(await proxy.held()).toEqual({ minute: 0, day: 0 })
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual({ minute: 0, day: 0 })
  })

  test('a reload in mid-stream changes nothing in what is settled', async () => {
    const { proxy, call, client } = await streaming()
    const budget = { tokens_per_minute: MINUTE_TOKENS, tokens_per_day: DAY_TOKENS }
    await proxy.edge.publish(bundle(2, policy('llm', { rules: [llmRule('budget', [], budget)] })))
    expect(await proxy.held()).toEqual(both(RESERVED))
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 2))
  })
})
