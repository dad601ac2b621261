import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { CHAT, HELLO, HELLO_TOKENS, type LlmProxyOptions, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { anthropicStream, chatChunk, chatStream, responsesStream, sse } from '../../support/llm/llm-streams.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { compressingLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const GEMINI = '/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse'
const ASKED = { stream: true, messages: HELLO, max_tokens: 20_000 }
const USED = 'edge_llm_tokens_used_total{policy="llm",rule="budget"}'
/** One token each. */
const WORDS = Array.from({ length: 1000 }, (_, i) => `w${String(i).padStart(3, '0')}`)
const said = (text: string) => ({ candidates: [{ content: { parts: [{ text }], role: 'model' } }], modelVersion: 'gemini-2.5-pro' })
const GEMINI_TEXT = WORDS.map((word) => sse(said(word))).join('')

function growing(dayTokens: number, streaming: object = {}, config: object = {}): LlmProxyOptions {
  return { dayTokens, config: { reserve: { first: 100, step: 100 }, ...config }, streaming }
}

describe('a reservation that grows', () => {
  test('begins with its prompt and `first`, however many tokens the request asks for', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(1000))
    const clients = Array.from({ length: 9 }, () => proxy.open(CHAT, ASKED))
    const calls = await Promise.all(clients.map(() => backend.next()))
    expect((await proxy.held()).day).toBe(9 * (HELLO_TOKENS + 100))
    for (const call of calls) {
      call.begin()
      call.end(chatStream(WORDS.slice(0, 20)))
    }
    for (const client of clients) expect((await client.untilClosed()).outcome).toBe('whole')
    expect((await proxy.spent()).day).toBe(9 * (HELLO_TOKENS + 20))
  })

  test('asks for a step when less than half a step is left, and gives the rest back at its end', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(1000))
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(
      WORDS.slice(0, 50)
        .map((content) => chatChunk({ content }))
        .join(''),
    )
    await client.untilText('w049')
    expect((await proxy.held()).day).toBe(HELLO_TOKENS + 100)
    await call.write(chatChunk({ content: 'w050' }))
    await client.untilText('w050')
    expect(await proxy.held()).toEqual({ minute: HELLO_TOKENS + 200, day: HELLO_TOKENS + 200 })
    call.end(sse('[DONE]'))
    await client.untilClosed()
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + 51)
    expect(await proxy.edge.metric('edge_llm_growth_total{policy="llm",rule="budget",outcome="granted"}')).toBe(1)
    expect(await proxy.edge.metric('edge_llm_tokens_reserved_total{policy="llm",rule="budget"}')).toBe(HELLO_TOKENS + 200)
    expect(await proxy.edge.metric('edge_llm_tokens_given_back_total{policy="llm",rule="budget"}')).toBe(149)
  })

  test('stops at a bound that the request states, and cuts nothing then', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS.slice(0, 290))), growing(203))
    const client = await proxy.stream(CHAT, { ...ASKED, max_tokens: 150 })
    expect(client.text).toContain('w289')
    await proxy.untilQuiet()
    expect(await proxy.edge.metric(USED)).toBe(HELLO_TOKENS + 290)
  })

  test.each<[string, object]>([
    ['"stream": 1, which only some backends take for true', { stream: 1 }],
    ['a text', { stream: 'true' }],
    ['work in the background', { background: true }],
  ])('is only for streams that are certain: %s reserves the whole bound', async (_, fields) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(1000))
    const client = proxy.open(CHAT, { ...ASKED, max_tokens: 500, ...fields })
    const call = await backend.next()
    expect((await proxy.held()).day).toBe(HELLO_TOKENS + 500)
    call.answer(500, {})
    await client.untilClosed()
  })

  test("of Gemini's is for `alt=sse` alone: a list of JSON is never cut", async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(1000))
    const body = { contents: [{ parts: [{ text: 'hello there!' }] }], generationConfig: { maxOutputTokens: 500 } }
    for (const [path, tokens] of [
      [GEMINI, 100],
      [GEMINI.replace('?alt=sse', '?%24alt=sse'), 100],
      [GEMINI.replace('?alt=sse', ''), 500],
    ] as const) {
      const client = proxy.open(path, body)
      const call = await backend.next()
      expect((await proxy.held()).day).toBe(HELLO_TOKENS + tokens)
      call.answer(500, {})
      await client.untilClosed()
      await proxy.untilQuiet()
    }
  })

  test('a response that is no stream holds the rest of the bound from its head on, into debt if need be', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(1000))
    const client = proxy.open(CHAT, { ...ASKED, max_tokens: 5000 })
    const call = await backend.next()
    expect((await proxy.held()).day).toBe(HELLO_TOKENS + 100)
    call.begin({ 'Content-Type': 'application/json' })
    await client.untilHead()
    expect(await proxy.edge.metric('edge_llm_tokens_reserved_total{policy="llm",rule="budget"}')).toBe(HELLO_TOKENS + 5000)
    expect((await proxy.post(CHAT, { messages: HELLO, max_tokens: 1 })).status).toBe(429)
    call.end(JSON.stringify({ choices: [{ message: { content: 'abcd' } }], usage: { prompt_tokens: 9, completion_tokens: 7 } }))
    await client.untilClosed()
    expect((await proxy.spent()).day).toBe(16)
  })

  test('an event stream in a coding or an API that is not known is charged its whole bound', async () => {
    const backend = await scriptedLlm((call) => {
      const isFirst = JSON.parse(call.body).max_tokens === 300
      call.begin(isFirst ? { 'Content-Encoding': 'zstd' } : {})
      call.end(sse({ answer: 'abcd' }))
    })
    const proxy = await llmProxy(backend, growing(2000))
    await proxy.stream(CHAT, { ...ASKED, max_tokens: 300 })
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + 300)
    await proxy.stream(CHAT, { ...ASKED, max_tokens: 400 })
    expect((await proxy.spent()).day).toBe(2 * HELLO_TOKENS + 700)
  })
})

describe('a stream without usage and without text', () => {
  test.each<[string, string, number]>([
    ['has no events at all', '', 100],
    ['has only comments', ': wait\n\n: wait\n\n', 100],
    ['has only its end', sse('[DONE]'), 100],
    ['says nothing in an API that is known', chatChunk({ role: 'assistant' }) + chatChunk({}, 'stop'), 100],
    ['is in an API that is not known', sse({ answer: 'abcd' }), 5000],
    ['is plain text', sse('abcd'), 5000],
    ['has a little sound', chatChunk({ audio: { data: 'A'.repeat(1000) } }), 100],
    ['has much sound', chatChunk({ audio: { data: 'A'.repeat(40_000) } }).repeat(2), 5000],
  ])('that %s is charged what it had reserved, or all of its bound', async (_, text, tokens) => {
    const proxy = await llmProxy(await streamingLlm(text), growing(8000, { include_partial_usage: false }))
    const client = await proxy.stream(CHAT, { ...ASKED, max_tokens: 5000 })
    expect([client.outcome, client.text]).toEqual(['whole', text])
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + tokens)
    expect(await proxy.edge.metric('edge_llm_not_understood_total{policy="llm"}')).toBe(1)
  })

  test.each([
    ['in an API that is not known', sse('abcd')],
    ['with much sound', `${chatChunk({ audio: { data: 'A'.repeat(70_000) } })}${chatChunk({ audio: { id: 'abcd' } })}`],
  ])('is not cheaper for a client that leaves before its end: %s', async (_, text) => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, growing(8000))
    const client = proxy.open(CHAT, { ...ASKED, max_tokens: 5000 })
    const call = await backend.next()
    call.begin()
    await call.write(text)
    await client.untilText('abcd')
    client.abort()
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + 5000)
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })
})

describe('a stream whose budget is used up', () => {
  const CODE = { code: 'tpd_exceeded', message: 'the daily token budget is exceeded' }

  test.each<[string, string, object, string, unknown, unknown]>([
    [
      'chat',
      CHAT,
      { messages: HELLO },
      chatStream(WORDS),
      { choices: [{ finish_reason: 'length' }] },
      { error: { ...CODE, type: 'rate_limit_error' } },
    ],
    [
      'Anthropic',
      MESSAGES,
      { messages: HELLO },
      // The prompt of this stream has 25 tokens, and 100 cached ones.
      anthropicStream(WORDS),
      { type: 'message_stop' },
      { type: 'error', error: { ...CODE, type: 'rate_limit_error' } },
    ],
    [
      'Responses',
      RESPONSES,
      { input: 'hello there!' },
      responsesStream(WORDS),
      { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' } } },
      { type: 'error', ...CODE },
    ],
    [
      'Gemini',
      GEMINI,
      { contents: [{ parts: [{ text: 'hello there!' }] }] },
      GEMINI_TEXT,
      { candidates: [{ finishReason: 'MAX_TOKENS' }] },
      { error: { code: 429, message: CODE.message, status: 'RESOURCE_EXHAUSTED' } },
    ],
  ])('%s: it is cut where the budget ends, in either way', async (_, path, asked, text, graceful, error) => {
    for (const [way, last] of [
      ['graceful_close', graceful],
      ['error_chunk', error],
    ] as const) {
      const proxy = await llmProxy(await streamingLlm(text), growing(400, { on_limit_exceeded: way, include_partial_usage: false }))
      const client = await proxy.open(path, path === GEMINI ? asked : { stream: true, ...asked }).untilClosed()
      expect([way, client.outcome]).toEqual([way, 'whole'])
      expect(client.data.findLast((each) => typeof each === 'object')).toMatchObject(last as object)
      await proxy.untilQuiet()
      const used = await proxy.edge.metric(USED)
      // Less than a sixteenth of a step is left.
      expect(used).toBeGreaterThan(400 - 100 / 16)
      expect(used).toBeLessThanOrEqual(401)
      expect(await untilLogged(proxy.edge, 'truncated')).toMatchObject([{ policy: 'llm', rule: 'budget', cause: 'budget' }])
      expect(await proxy.edge.metric('edge_llm_truncations_total{policy="llm",rule="budget",cause="budget"}')).toBe(1)
      expect(await proxy.settlements()).toEqual({ truncated: 1 })
    }
  })

  test('a budget of money cuts, too, by the prices of the model, and says budget_exceeded', async () => {
    const config = { reserve: { first: 100, step: 100 }, streaming: { on_limit_exceeded: 'error_chunk' } }
    // A prompt token costs 0.03 to reserve and 0.01 to use, one of the completion 0.02.
    const proxy = await moneyProxy(await streamingLlm(chatStream(WORDS)), { budget: 8, config })
    const client = await proxy.stream(CHAT, { model: 'big', messages: HELLO, max_tokens: 20_000 })
    expect(client.data.at(-2)).toMatchObject({ error: { code: 'budget_exceeded', type: 'rate_limit_error' }, usage: { prompt_tokens: 3 } })
    await proxy.untilQuiet()
    const spent = await proxy.edge.metric('edge_cost_spent_total{policy="money",rule="dollars"}')
    expect(spent).toBeGreaterThan(8 - 0.02 * (100 / 16))
    expect(spent).toBeLessThanOrEqual(8.02 + 1e-9)
    expect(await proxy.edge.metric('edge_llm_truncations_total{policy="money",rule="dollars",cause="budget"}')).toBe(1)
  })

  test('a compressed stream is cut at the same place', async () => {
    const proxy = await llmProxy(await compressingLlm('gzip', gzipSync(chatStream(WORDS)), undefined, 0), growing(400))
    const client = await proxy.stream(CHAT, ASKED, [['Accept-Encoding', 'gzip']])
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    await proxy.untilQuiet()
    expect(await proxy.edge.metric(USED)).toBe(401)
  })

  test('its last events pass: what only the last usage reveals is charged into debt', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 900, total_tokens: 903 }
    const text = [
      ...WORDS.slice(0, 60).map((content) => chatChunk({ content })),
      chatChunk({}, 'stop'),
      sse({ choices: [], usage }),
      sse('[DONE]'),
    ]
    const proxy = await llmProxy(await streamingLlm(text.join('')), growing(250, { include_partial_usage: false }))
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, client.text]).toEqual(['whole', text.join('')])
    await proxy.untilQuiet()
    expect(await proxy.edge.metric(USED)).toBe(903)
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('max_completion_tokens cuts as before, and says so', async () => {
    const options = growing(8000, { buffer_tokens: 1 }, { max_completion_tokens: 250 })
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), options)
    await proxy.stream(CHAT, ASKED)
    expect((await proxy.spent()).day).toBe(HELLO_TOKENS + 251)
    expect(await untilLogged(proxy.edge, 'truncated')).toMatchObject([{ cause: 'max_completion_tokens', max_completion_tokens: 250 }])
  })

  test('in shadow mode no byte changes: the cut is logged and counted once', async () => {
    const text = chatStream(WORDS)
    const proxy = await llmProxy(await streamingLlm(text), { ...growing(400), mode: 'shadow' })
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).toBe(text)
    expect(await untilLogged(proxy.edge, 'would_truncate')).toMatchObject([{ cause: 'budget', completion_tokens: 398 }])
    expect(await proxy.edge.metric('edge_llm_would_truncate_total{policy="llm",rule="budget",cause="budget"}')).toBe(1)
    await proxy.untilQuiet()
    expect(await proxy.edge.metric(USED)).toBe(HELLO_TOKENS + 1000)
  })
})
