import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxyOptions, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const GEMINI = '/v1beta/models/gemini-2.5-pro:generateContent'
const ASKED = { input: 'hello there!', max_output_tokens: 100 }
const SEEN = HELLO_TOKENS + 100
const DAY = 300_000
const BUDGETS = { minuteTokens: 600_000, dayTokens: DAY }

/** What is reserved while the request is under way, and what is spent when its client has left. */
async function heldBy(path: string, body: object, config: object = {}, budgets: LlmProxyOptions = BUDGETS): Promise<[number, number]> {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { ...budgets, config })
  const client = proxy.open(path, body)
  const call = await backend.next()
  const { day } = await proxy.held()
  client.abort()
  await until(() => call.isAborted)
  return [day, (await proxy.spent()).day]
}

function parts(...content: readonly object[]): object {
  return { messages: [{ role: 'user', content: [{ type: 'text', text: 'hello there!' }, ...content] }], max_tokens: 100 }
}

describe('a prompt that lies elsewhere reserves more than is seen of it', () => {
  test.each<[string, string, object]>([
    ['an earlier response', RESPONSES, { ...ASKED, previous_response_id: 'resp_1' }],
    ['its name in another case', RESPONSES, { ...ASKED, Previous_Response_Id: 'resp_1' }],
    ['a conversation', RESPONSES, { ...ASKED, conversation: { id: 'conv_1' } }],
    ['a stored prompt', RESPONSES, { ...ASKED, prompt: { id: 'pmpt_1' }, max_tokens: 100 }],
    [
      'an item',
      RESPONSES,
      {
        ...ASKED,
        input: [
          { type: 'item_reference', id: 'msg_1' },
          { role: 'user', content: 'hello there!' },
        ],
      },
    ],
    [
      'a file',
      RESPONSES,
      {
        ...ASKED,
        input: [
          {
            content: [
              { type: 'input_file', file_id: 'file_1' },
              { type: 'input_text', text: 'hello there!' },
            ],
          },
        ],
      },
    ],
    ['a thread', '/v1/threads/thread_1/runs', { ...ASKED, assistant_id: 'asst_1' }],
    ['a file in a chat', CHAT, parts({ type: 'file', file: { file_id: 'file_1' } })],
    ['a picture elsewhere', CHAT, parts({ type: 'image_url', image_url: { url: 'https://example.org/a.png' } })],
    ['a document elsewhere', MESSAGES, parts({ type: 'document', source: { type: 'url', url: 'https://example.org/a.pdf' } })],
    ['a file of a message', MESSAGES, parts({ type: 'document', source: { type: 'file', file_id: 'file_1' } })],
    ['a container', MESSAGES, { ...parts(), container: 'container_1' }],
    [
      'a cache',
      GEMINI,
      { contents: { parts: { text: 'hello there!' } }, generationConfig: { maxOutputTokens: 100 }, cachedContent: 'cachedContents/1' },
    ],
    [
      'a file of Gemini',
      GEMINI,
      {
        contents: { parts: [{ text: 'hello there!' }, { fileData: { fileUri: 'gs://a/b' } }] },
        generationConfig: { maxOutputTokens: 100 },
      },
    ],
  ])('%s', async (_, path, body) => {
    // A client that leaves pays for the prompt, of which nothing better is known.
    expect(await heldBy(path, body)).toEqual([SEEN + 20_000, HELLO_TOKENS + 20_000])
  })

  test.each<[string, string, object]>([
    ['null', RESPONSES, { ...ASKED, previous_response_id: null, conversation: null }],
    ['a picture that is there', CHAT, parts({ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } })],
    ['the id of a message', RESPONSES, { ...ASKED, input: [{ type: 'message', id: 'msg_1', content: 'hello there!' }] }],
  ])('but not %s', async (_, path, body) => {
    expect(await heldBy(path, body)).toEqual([SEEN, HELLO_TOKENS])
  })
})

describe('how many tokens that are', () => {
  const body = { ...ASKED, previous_response_id: 'resp_1' }
  test('the rule says', async () => {
    expect(await heldBy(RESPONSES, body, { unseen_prompt_tokens: 50_000 })).toEqual([SEEN + 50_000, HELLO_TOKENS + 50_000])
    expect(await heldBy(RESPONSES, body, { unseen_prompt_tokens: 0 })).toEqual([SEEN, HELLO_TOKENS])
  })

  test('if it does not, at most a quarter of the smallest budget, so that the request is never too large for it', async () => {
    const budgets = { minuteTokens: 32_000, dayTokens: 8000 }
    expect(await heldBy(RESPONSES, body, {}, budgets)).toEqual([SEEN + 2000, HELLO_TOKENS + 2000])
    expect(await heldBy(RESPONSES, { ...body, max_output_tokens: 7900 }, {}, budgets)).toEqual([8000, HELLO_TOKENS + 2000])
  })

  test('none by default in a budget by the minute', async () => {
    const backend = await scriptedLlm((call) => call.answer(200, { usage: { input_tokens: 1, output_tokens: 1 } }))
    const proxy = await llmProxy(backend, { minuteTokens: 200, config: { tokens_per_day: undefined } })
    expect((await proxy.post(RESPONSES, body)).status).toBe(200)
  })
})

test('a burst of such requests does not use a budget many times over, and each costs what the provider counts', async () => {
  const usage = { input_tokens: 20_010, output_tokens: 100, total_tokens: 20_110 }
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, BUDGETS)
  const body = { ...ASKED, previous_response_id: 'resp_1' }
  const asked = Promise.all(Array.from({ length: 50 }, () => proxy.post(RESPONSES, body)))
  await until(() => backend.calls.length === 14)
  for (const call of backend.calls) call.answer(200, { output: [], usage })
  const statuses = (await asked).map(({ status }) => status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(14)
  expect(await proxy.spent()).toEqual(both(14 * 20_110))
})

test('a budget of money reserves them at the price of the model', async () => {
  const backend = await scriptedLlm()
  const proxy = await moneyProxy(backend, { budget: 10_000 })
  const client = proxy.open(CHAT, { model: 'small-1', ...parts({ type: 'file', file: { file_id: 'file_1' } }) })
  const call = await backend.next()
  const seen = HELLO_TOKENS * 0.001 + 100 * 0.002
  expect(await proxy.left()).toBeCloseTo(10_000 - seen - 20_000 * 0.001, 6)
  call.answer(200, { choices: [], usage: { prompt_tokens: 40_000, completion_tokens: 1 } })
  await client.untilClosed()
  expect(await proxy.leftWhenQuiet()).toBeCloseTo(10_000 - 40.002, 6)
})

test('a stream whose reservation grows begins with them, and without usage costs them', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { ...BUDGETS, config: { reserve: { first: 100, step: 100 } } })
  const client = proxy.open(CHAT, { stream: true, messages: HELLO, container: 'c' })
  const call = await backend.next()
  expect((await proxy.held()).day).toBe(HELLO_TOKENS + 20_000 + 100)
  call.begin()
  await call.write(`data: {"choices":[{"delta":{"content":"${'abcd'.repeat(300)}"},"finish_reason":"stop"}]}\n\n`)
  call.end('data: [DONE]\n\n')
  await client.untilClosed()
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 20_000 + 300))
})
