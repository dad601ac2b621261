import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { ASKED, choice, costing } from '../../support/llm/whole-answers.ts'

describe("a whole answer costs what its provider's usage says", () => {
  const costOf = costing()

  test.for([
    ['chat', { usage: { prompt_tokens: 11, completion_tokens: 31, total_tokens: 42 } }, 42],
    ['Responses', { object: 'response', output: [], usage: { input_tokens: 7, output_tokens: 8, total_tokens: 15 } }, 15],
    ['Anthropic', { type: 'message', content: [], usage: { input_tokens: 7, output_tokens: 8, cache_read_input_tokens: 100, cache_creation_input_tokens: 30 } }, 145],
    ['embeddings', { object: 'list', data: [], usage: { prompt_tokens: 9, total_tokens: 9 } }, 9],
    ['more than was reserved', { usage: { prompt_tokens: 3, completion_tokens: 4000, total_tokens: 4003 } }, 4003],
  ] as const)('%s', async ([, body, tokens]) => {
    expect(await costOf(body)).toBe(tokens)
  })
})

describe('without usage it costs its prompt and the text that is known', () => {
  const costOf = costing()

  test.for([
    ['chat', choice({ content: 'abcdefghi' }), 3],
    ['completions', { choices: [{ index: 0, text: 'abcdefgh' }] }, 2],
    ['Responses', { output: [{ type: 'message', content: [{ type: 'output_text', text: 'abcdefgh' }] }] }, 2],
    ['Anthropic', { type: 'message', content: [{ type: 'text', text: 'abcdefgh' }] }, 2],
    ['no JSON', 'x'.repeat(4000), 0],
  ] as const)('%s', async ([, body, completion]) => {
    expect(await costOf(body)).toBe(HELLO_TOKENS + completion)
  })
})

describe('an answer that cannot be counted', () => {
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
})

describe('the moment of settlement', () => {
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
