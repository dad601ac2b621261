import { describe, expect, test } from 'vitest'
import {
  both,
  CHAT,
  COMPLETIONS,
  EMBEDDINGS,
  fakeLlm,
  HELLO,
  HELLO_TOKENS,
  llmProxy,
  MESSAGES,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { ASKED, choice, costing } from '../../support/llm/whole-answers.ts'

describe("a whole answer costs what its provider's usage says", () => {
  const costOf = costing()

  test.for([
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
    ['a total alone', { usage: { total_tokens: 77 } }, 77],
    ['explicit zeros', { ...choice({ content: 'a lot of text' }), usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }, 0],
    ['a part of it: the other part is estimated', { ...choice({ content: 'abcdefgh' }), usage: { prompt_tokens: 40 } }, 42],
    ['rubbish in it is no usage', { ...choice({ content: 'abcd' }), usage: { prompt_tokens: '3', completion_tokens: -1 } }, 4],
    [
      'a count that no number holds is no usage',
      `{"choices":[{"text":"abcd"}],"usage":{"prompt_tokens":1e308,"completion_tokens":1e999}}`,
      4,
    ],
    ['null is no usage', { ...choice({ content: 'abcd' }), usage: null }, 4],
  ] as const)('%s', async ([, body, tokens]) => {
    expect(await costOf(body)).toBe(tokens)
  })
})

describe('without usage it costs its prompt and the text that is known', () => {
  const costOf = costing()

  test.for([
    ['chat with parts', choice({ content: [{ type: 'text', text: 'abcdefgh' }] }), 2],
    ['several choices', { choices: [{ message: { content: 'abcd' } }, { message: { content: 'efgh' } }] }, 2],
    ['a refusal', choice({ content: null, refusal: 'abcdefgh' }), 2],
    ['reasoning', choice({ content: 'abcd', reasoning_content: 'abcdefgh' }), 3],
    ['tool calls', choice({ content: null, tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }] }), 2],
    ['a Responses call', { output: [{ type: 'function_call', name: 'f', arguments: '{"a":12}' }] }, 2],
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
  test('one above it with a status of 500 gives all of it back', async () => {
    const proxy = await llmProxy(await answeringLlm(500, 'x'.repeat(300 * 1024)), { env: { EDGE_MAX_BODY_BYTES: '200k' } })
    await proxy.post(CHAT, ASKED)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('one that breaks off costs what was sent of it', async () => {
    const proxy = await llmProxy(await fakeLlm({ fail: 'reset', failAfterTokens: 5 }))
    const client = await proxy.open(CHAT, ASKED).untilClosed()
    expect([client.outcome, (await proxy.spent()).day > HELLO_TOKENS]).toEqual(['broken', client.text !== ''])
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
})

test('an answer of more than two million values passes whole and is charged what it says', async () => {
  const body = `{"usage":{"total_tokens":1},"a":[${'0,'.repeat(2_000_000)}0]}`
  const proxy = await llmProxy(await answeringLlm(200, body))
  expect((await proxy.post(CHAT, { messages: HELLO, max_tokens: 500 })).body).toBe(body)
  expect(await proxy.spent()).toEqual(both(1))
})
