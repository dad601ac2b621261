import { describe, expect, test } from 'vitest'
import { both, CHAT, COMPLETIONS, HELLO, HELLO_TOKENS, llmProxy, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream, sse } from '../../support/llm/llm-streams.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { type ScriptedLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
const CHUNKS = chatChunk({ content: 'abcd' }) + chatChunk({}, 'stop')
const USAGE = sse({
  id: 'c',
  object: 'chat.completion.chunk',
  choices: [],
  usage: { prompt_tokens: 50, completion_tokens: 300, total_tokens: 350 },
})
const DONE = sse('[DONE]')
const QUIET = { include_partial_usage: false }

/** Counts as OpenAI does: only where it is asked to. */
function countingLlm(): Promise<ScriptedLlm> {
  return scriptedLlm((call) => {
    const isAsked = (JSON.parse(call.body) as { stream_options?: { include_usage?: boolean } }).stream_options?.include_usage === true
    call.begin()
    call.end(`${CHUNKS}${isAsked ? USAGE : ''}${DONE}`)
  })
}

describe('streaming.ask_usage', () => {
  test("has the provider's count charged, and the client sees the stream that it asked for", async () => {
    const backend = await countingLlm()
    const proxy = await llmProxy(backend, { streaming: { ...QUIET, ask_usage: true } })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(`${CHUNKS}${DONE}`)
    expect(await proxy.spent()).toEqual(both(350))
    expect(JSON.parse(backend.calls[0]!.body)).toEqual({ ...ASKED, stream_options: { include_usage: true } })
  })

  test('leaves a client that asks itself the event that it asks for', async () => {
    const backend = await countingLlm()
    const proxy = await llmProxy(backend, { streaming: { ...QUIET, ask_usage: true } })
    const body = { ...ASKED, stream_options: { include_usage: true } }
    expect((await proxy.stream(CHAT, body)).text).toBe(`${CHUNKS}${USAGE}${DONE}`)
    expect(backend.calls[0]!.body).toBe(JSON.stringify(body))
  })

  test.for([
    ['options that cannot be changed', { ...ASKED, stream_options: { include_usage: false, x: {} } }, []],
    ['options far behind their name', JSON.stringify(ASKED).replace('{', `{"stream_options":${' '.repeat(5000)}null,`), []],
    ['a number that only some know', JSON.stringify(ASKED).replace('{', '{"temperature":NaN,'), []],
  ] as const)('a stream that could not be asked because of %s costs at least what was reserved', async ([, body, fields]) => {
    const backend = await scriptedLlm((call) => {
      call.begin()
      call.end(`${CHUNKS}${DONE}`)
    })
    const proxy = await llmProxy(backend, { streaming: { ...QUIET, ask_usage: true }, config: { max_completion_tokens: 500 } })
    expect((await proxy.open(CHAT, body, fields).untilClosed()).text).toBe(`${CHUNKS}${DONE}`)
    expect((await proxy.spent()).day).toBeGreaterThanOrEqual(HELLO_TOKENS + 500)
  })

  test('is for other spellings of the path, and for a coding that is none', async () => {
    const backend = await countingLlm()
    const proxy = await llmProxy(backend, { streaming: { ...QUIET, ask_usage: true } })
    for (const path of ['/v1/chat/completions/', '/v1/chat/Completions', '/invocations', '/api/chat']) await proxy.stream(path, ASKED)
    await proxy.stream(CHAT, ASKED, [['Content-Encoding', 'identity']])
    expect(await proxy.spent()).toEqual(both(5 * 350))
  })

  test('is for budgets of money too', async () => {
    const proxy = await moneyProxy(await countingLlm(), { config: { streaming: { ask_usage: true } } })
    expect((await proxy.stream(CHAT, { ...ASKED, model: 'big' })).text).toBe(`${CHUNKS}${DONE}`)
    expect(await proxy.leftWhenQuiet()).toBe(100 - (50 * 0.01 + 300 * 0.02))
  })

  test.for([
    ['without it', CHAT, ASKED, { streaming: QUIET }],
    ['in shadow', CHAT, ASKED, { streaming: { ...QUIET, ask_usage: true }, mode: 'shadow' }],
    ['for another API', RESPONSES, { ...ASKED, messages: undefined, input: 'hello there!' }, { streaming: { ...QUIET, ask_usage: true } }],
    ['for what is no stream', COMPLETIONS, { ...ASKED, stream: false }, { streaming: { ...QUIET, ask_usage: true } }],
  ] as const)('a request goes on as it came %s', async ([, path, body, options]) => {
    const backend = await countingLlm()
    const proxy = await llmProxy(backend, options)
    await proxy.open(path, body).untilClosed()
    expect(backend.calls[0]!.body).toBe(JSON.stringify(body))
  })
})

describe('without_usage: keep', () => {
  test('charges a stream without a count what was reserved', async () => {
    const proxy = await llmProxy(await countingLlm(), { config: { without_usage: 'keep' } })
    await proxy.stream(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })

  test('charges the count where there is one', async () => {
    const proxy = await llmProxy(await countingLlm(), { config: { without_usage: 'keep' } })
    await proxy.stream(CHAT, { ...ASKED, stream_options: { include_usage: true } })
    expect(await proxy.spent()).toEqual(both(350))
  })

  test('charges the estimate where that is more', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(['x'.repeat(40)])), { config: { without_usage: 'keep' } })
    await proxy.stream(CHAT, { ...ASKED, max_tokens: 1 })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 10))
  })

  test.each([true, false])('keeps it where a client leaves before the head of a response, stream %s', async (stream) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { config: { without_usage: 'keep' } })
    const client = proxy.open(CHAT, { ...ASKED, stream })
    const call = await backend.next()
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })

  test('is for money too, and for a client that leaves', async () => {
    const backend = await scriptedLlm()
    const proxy = await moneyProxy(backend, { config: { without_usage: 'keep' } })
    const client = proxy.open(CHAT, { ...ASKED, model: 'big' })
    const call = await backend.next()
    call.begin()
    await call.write(CHUNKS)
    await client.untilText('abcd')
    client.abort()
    expect(await proxy.leftWhenQuiet()).toBe(100 - (HELLO_TOKENS * 0.03 + 500 * 0.02))
  })
})

describe('work in the background', () => {
  test('costs what was reserved where its stream is left, for it goes on', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(RESPONSES, { input: 'hello there!', max_output_tokens: 500, stream: true, background: true })
    const call = await backend.next()
    call.begin()
    await call.write(sse({ type: 'response.output_text.delta', delta: 'abcd' }, 'response.output_text.delta'))
    await client.untilText('abcd')
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })
})

describe('a stream in a language that is not known', () => {
  test('costs what was reserved where its client leaves', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(sse({ outputs: [{ words: 'abcd' }] }))
    await client.untilText('abcd')
    client.abort()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })
})
