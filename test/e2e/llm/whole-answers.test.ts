import { beforeAll, describe, expect, test } from 'vitest'
import {
  both,
  CHAT,
  COMPLETIONS,
  EMBEDDINGS,
  fakeLlm,
  HELLO,
  HELLO_TOKENS,
  type LlmProxy,
  llmProxy,
  MESSAGES,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const ASKED = { messages: HELLO, max_tokens: 500 }

/** A function that tells what an answer with a body costs. Each is for a caller of its own. */
function costing(): (body: object | string) => Promise<number> {
  const suite = thisSuite()
  let answer: object | string
  let callers = 0
  let proxy: LlmProxy
  beforeAll(async () => {
    const backend = await scriptedLlm((call) => call.answer(200, answer), suite)
    proxy = await llmProxy(backend, { limitKeys: ['header:x-caller'] }, suite)
  })
  return async (body) => {
    answer = body
    const caller = [['X-Caller', String(callers++)]] as const
    const { status, body: passed } = await proxy.post(CHAT, ASKED, caller)
    expect([status, passed]).toEqual([200, typeof body === 'string' ? body : JSON.stringify(body)])
    const { minute, day } = await proxy.spent(caller)
    expect(minute).toBe(day)
    return day
  }
}

const choice = (message: object) => ({ choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }] })

describe("a whole answer costs what its provider's usage says", () => {
  const costOf = costing()

  test.for([
    ['chat', { usage: { prompt_tokens: 11, completion_tokens: 31, total_tokens: 42 } }, 42],
    [
      'details are parts of the sums',
      {
        usage: {
          prompt_tokens: 11,
          completion_tokens: 31,
          total_tokens: 42,
          prompt_tokens_details: { cached_tokens: 10 },
          completion_tokens_details: { reasoning_tokens: 30 },
        },
      },
      42,
    ],
    ['Responses', { object: 'response', output: [], usage: { input_tokens: 7, output_tokens: 8, total_tokens: 15 } }, 15],
    ['Anthropic', { type: 'message', content: [], usage: { input_tokens: 7, output_tokens: 8, cache_read_input_tokens: 100 } }, 15],
    ['embeddings', { object: 'list', data: [], usage: { prompt_tokens: 9, total_tokens: 9 } }, 9],
    ['a total alone', { usage: { total_tokens: 77 } }, 77],
    ['explicit zeros', { ...choice({ content: 'a lot of text' }), usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }, 0],
    ['more than was reserved', { usage: { prompt_tokens: 3, completion_tokens: 4000, total_tokens: 4003 } }, 4003],
    ['a part of it: the other part is estimated', { ...choice({ content: 'abcdefgh' }), usage: { prompt_tokens: 40 } }, 42],
    ['rubbish in it is no usage', { ...choice({ content: 'abcd' }), usage: { prompt_tokens: '3', completion_tokens: -1 } }, 4],
    ['a count that no number holds is no usage', `{"choices":[],"usage":{"prompt_tokens":1e308,"completion_tokens":1e999}}`, HELLO_TOKENS],
    ['null is no usage', { ...choice({ content: 'abcd' }), usage: null }, 4],
  ] as const)('%s', async ([, body, tokens]) => {
    expect(await costOf(body)).toBe(tokens)
  })
})

describe('without usage it costs its prompt and the text that is known', () => {
  const costOf = costing()

  test.for([
    ['chat', choice({ content: 'abcdefghi' }), 3],
    ['chat with parts', choice({ content: [{ type: 'text', text: 'abcdefgh' }] }), 2],
    ['several choices', { choices: [{ message: { content: 'abcd' } }, { message: { content: 'efgh' } }] }, 2],
    ['a refusal', choice({ content: null, refusal: 'abcdefgh' }), 2],
    ['reasoning', choice({ content: 'abcd', reasoning_content: 'abcdefgh' }), 3],
    ['tool calls', choice({ content: null, tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }] }), 2],
    ['completions', { choices: [{ index: 0, text: 'abcdefgh' }] }, 2],
    ['Responses', { output: [{ type: 'message', content: [{ type: 'output_text', text: 'abcdefgh' }] }] }, 2],
    ['a Responses call', { output: [{ type: 'function_call', name: 'f', arguments: '{"a":12}' }] }, 2],
    ['Anthropic', { type: 'message', content: [{ type: 'text', text: 'abcdefgh' }] }, 2],
    [
      'Anthropic thinking and tools',
      {
        type: 'message',
        content: [
          { type: 'thinking', thinking: 'abcd' },
          { type: 'tool_use', input: { a: 12 } },
        ],
      },
      3,
    ],
    ['code points', choice({ content: '😀😀😀😀' }), 1],
    ['no known text', { result: 'x'.repeat(4000) }, 0],
    ['no JSON', 'x'.repeat(4000), 0],
    ['nothing', '', 0],
  ] as const)('%s', async ([, body, completion]) => {
    expect(await costOf(body)).toBe(HELLO_TOKENS + completion)
  })
})

describe('every endpoint of a provider', () => {
  test.for([
    [CHAT, { messages: HELLO, max_tokens: 20 }, HELLO_TOKENS + 20],
    [CHAT, { messages: HELLO, max_tokens: 20, n: 2 }, HELLO_TOKENS + 40],
    [COMPLETIONS, { prompt: 'hello there!', max_tokens: 20 }, HELLO_TOKENS + 20],
    [RESPONSES, { input: 'hello there!', max_output_tokens: 20 }, HELLO_TOKENS + 20],
    [MESSAGES, { messages: HELLO, max_tokens: 20 }, HELLO_TOKENS + 20],
    [EMBEDDINGS, { input: 'hello there!' }, HELLO_TOKENS],
  ] as const)('%s, with usage and without', async ([path, body, tokens]) => {
    for (const hasUsage of [true, false]) {
      const fake = await fakeLlm({ hasUsage })
      const proxy = await llmProxy(fake)
      const answer = await proxy.post(path, body)
      expect([answer.status, hasUsage, await proxy.spent()]).toEqual([200, hasUsage, both(tokens)])
      expect(fake.requests[0]!.body.toString()).toBe(JSON.stringify(body))
    }
  })

  test('a path without a budget of its own shape costs what its answer tells', async () => {
    const proxy = await llmProxy(await fakeLlm())
    const models = await proxy.edge.get('/v1/models')
    expect(models.status).toBe(200)
    expect(await proxy.spent()).toEqual(both(0))
  })
})

test('an answer in one-byte chunks is counted like any other', async () => {
  const body = JSON.stringify({ ...choice({ content: 'é😀\n"'.repeat(20) }), padding: Array(5).fill({ a: [1.5e3, null] }) })
  const proxy = await llmProxy(
    await scriptedLlm(async (call) => {
      call.begin({ 'Content-Type': 'application/json' })
      await call.writeInPieces(body, 1)
      call.end()
    }),
  )
  expect((await proxy.post(CHAT, ASKED)).body).toBe(body)
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 20))
})

describe('an answer that cannot be counted', () => {
  // One of more than two million values: whole-answers.slow.test.ts
  test('nested deeper than 1,000 levels: it passes whole, and what was reserved stands', async () => {
    const body = `{"usage":{"total_tokens":1},"a":${'['.repeat(1000)}${']'.repeat(1000)}}`
    const proxy = await llmProxy(await answeringLlm(200, body))
    expect((await proxy.post(CHAT, ASKED)).body).toBe(body)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })

  test('one above EDGE_MAX_BODY_BYTES passes whole, and what was reserved stands', async () => {
    const body = JSON.stringify({ usage: { total_tokens: 1 }, padding: 'x'.repeat(300 * 1024) })
    const proxy = await llmProxy(await answeringLlm(200, body), { env: { EDGE_MAX_BODY_BYTES: '200k' } })
    const answer = await proxy.post(CHAT, ASKED)
    expect(answer.body).toBe(body)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
  })

  test('one above it with a status of 500 gives all of it back', async () => {
    const proxy = await llmProxy(await answeringLlm(500, 'x'.repeat(300 * 1024)), { env: { EDGE_MAX_BODY_BYTES: '200k' } })
    await proxy.post(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('one that breaks off gives all of it back', async () => {
    const proxy = await llmProxy(await fakeLlm({ fail: 'reset', failAfterTokens: 5 }))
    const client = await proxy.open(CHAT, ASKED).untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(0)])
  })
})

describe('the moment of settlement', () => {
  test('who has the whole answer finds the budget right', async () => {
    const proxy = await llmProxy(await fakeLlm({ tokens: 10 }))
    for (let i = 1; i <= 5; i++) {
      await proxy.post(CHAT, { messages: HELLO, max_tokens: 10 })
      expect((await proxy.held()).day).toBe(i * (HELLO_TOKENS + 10))
    }
  })

  test('until then the reservation is held, though most of the body is there', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    const body = JSON.stringify({ ...choice({ content: 'abcd' }), usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })
    call.begin({ 'Content-Type': 'application/json' })
    await call.write(body.slice(0, -1))
    await client.untilText('usage')
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 500))
    call.end(body.slice(-1))
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(2))
  })
})
