import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO_TOKENS, llmProxy, MESSAGES } from '../../support/llm/llm-proxy.ts'
import { answeringLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { ASKED, choice, costing } from '../../support/llm/whole-answers.ts'
import { askRaw, RawClient } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

describe("a whole answer costs what its provider's usage says", () => {
  const costOf = costing()

  test.for([
    ['chat', { usage: { prompt_tokens: 11, completion_tokens: 31, total_tokens: 42 } }, 42],
    ['Responses', { object: 'response', output: [], usage: { input_tokens: 7, output_tokens: 8, total_tokens: 15 } }, 15],
    [
      'Anthropic',
      {
        type: 'message',
        content: [],
        usage: { input_tokens: 7, output_tokens: 8, cache_read_input_tokens: 100, cache_creation_input_tokens: 30 },
      },
      145,
    ],
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
  ] as const)('%s', async ([, body, completion]) => {
    expect(await costOf(body)).toBe(HELLO_TOKENS + completion)
  })
})

describe('an answer that has neither usage nor text that is known', () => {
  const costOf = costing()

  test.for([
    ['no JSON', 'x'.repeat(1900)],
    ['nothing at all', ''],
    ['of llama.cpp', { content: 'x'.repeat(1900), tokens_predicted: 1000 }],
    ['of Ollama', { response: 'x'.repeat(1900), done: true, eval_count: 1000 }],
    ['of TGI', [{ generated_text: 'x'.repeat(1900) }]],
    ['work that goes on in the background', { id: 'resp_1', status: 'queued', output: [], usage: { input_tokens: 0, output_tokens: 0 } }],
  ] as const)('%s costs what was reserved', async ([, body]) => {
    expect(await costOf(body)).toBe(HELLO_TOKENS + ASKED.max_tokens)
  })

  test('costs what was reserved though the text of the prompt was not found', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { message: { content: 'x'.repeat(1900) } }))
    await proxy.post(CHAT, { messages: [{ role: 'user', Content: 'Write a long story' }] })
    expect(await proxy.spent()).toEqual(both(1000))
  })

  test('is counted and logged, once a minute for each policy', async () => {
    const proxy = await llmProxy(await answeringLlm(200, {}))
    for (let i = 0; i < 3; i++) await proxy.post(CHAT, ASKED)
    expect(await proxy.edge.metric('edge_llm_not_understood_total{policy="llm"}')).toBe(3)
    expect(await untilLogged(proxy.edge, 'llm_response_not_understood')).toMatchObject([{ policy: 'llm', unlogged: 0 }])
    proxy.clock.advance(60_000)
    await proxy.post(CHAT, ASKED)
    expect(await untilLogged(proxy.edge, 'llm_response_not_understood', 2)).toMatchObject([{}, { policy: 'llm', unlogged: 2 }])
  })

  test('costs nothing where nothing was asked for: a list, or an upload without a prompt', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { data: [] }))
    for (const [method, path] of [
      ['GET', '/v1/models'],
      ['POST', '/v1/responses/resp_1/cancel'],
    ] as const)
      expect((await ask(proxy.port, method, path)).status).toBe(200)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('costs the text where texts are moderated, and what it generates all the same', async () => {
    const results = Array(32).fill({ flagged: false, categories: { 'a category': false }, category_scores: { 'a category': 0.001 } })
    const proxy = await llmProxy(await answeringLlm(200, { id: 'modr-1', results }))
    await proxy.post('/v1/moderations', { input: Array(32).fill('twelve chars') })
    expect(await proxy.spent()).toEqual(both(32 * 3))
    const other = await llmProxy(await answeringLlm(200, { choices: [{ message: { content: 'x'.repeat(4000) } }] }))
    await other.post('/v1/moderations', { input: 'twelve chars' })
    expect(await other.spent()).toEqual(both(1003))
  })

  test('costs nothing where it only counts tokens', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { input_tokens: 2095 }))
    await proxy.post(`${MESSAGES}/count_tokens`, ASKED)
    expect(await proxy.spent()).toEqual(both(0))
  })
})

describe('an answer to a POST without a prompt', () => {
  const ID = 'resp_0123456789abcdef'
  const answer = { id: ID, status: 'cancelled', output: [], usage: { input_tokens: 9, output_tokens: 2700 } }

  test.each([
    [0, 'cancels', `/v1/responses/${ID}/cancel`, {}],
    [0, 'changes', `/v1/responses/${ID}?a=b`, { metadata: { a: 'b' } }],
    [2709, 'is another one', '/v1/responses/resp_0123456789abcdee/cancel', {}],
    [2709, 'has a bound', `/v1/responses/${ID}/cancel`, { max_output_tokens: 2 }],
    [2709, 'has a prompt', `/v1/responses/${ID}`, { input: 'go on' }],
    [2709, 'may have a prompt that is not known', `/v1/responses/${ID}`, { story: 'x'.repeat(300) }],
    [0, 'cancels a run', `/v1/threads/thread_1/runs/${ID}/cancel`, {}],
    [0, 'changes a completion', `/v1/chat/completions/${ID}`, { metadata: { a: 'b' } }],
    [2709, 'refers to a prompt', `/v1/responses/${ID}`, { previous_response_id: 'resp_1' }],
    [2709, 'goes on with what repeats its id', `/v1/responses/${ID}/resume`, {}],
    [2709, 'begins something that repeats its id', `/v1/threads/${ID}/runs`, {}],
    [2709, 'is about a thing that is not known', `/v1/stories/${ID}`, {}],
    [2709, 'has the id in its query', `/v1/responses?id=/${ID}`, {}],
    [2709, 'has the id where it is no name', `/v1/${ID}/responses/new/cancel`, {}],
    [2709, 'may be read in two ways', `/v1/responses/${ID}/../cancel`, {}],
    [2709, 'may be read in two ways', `/v1/responses//${ID}`, {}],
  ] as const)('costs %d where it %s', async (cost, _, path, body) => {
    const proxy = await llmProxy(await answeringLlm(200, answer))
    for (let i = 1; i <= 2; i++) {
      expect((await proxy.post(path, body)).status).toBe(200)
      expect(await proxy.spent()).toEqual(both(i * cost))
    }
  })

  test.each([
    [0, 'changes one', ID],
    [1004, 'is another one', 'run_0123456789abcdee'],
  ])('costs %d where the work is under way and it %s', async (cost, _, id) => {
    const proxy = await llmProxy(await answeringLlm(200, { id, status: 'in_progress', usage: null }))
    await proxy.post(`/v1/threads/thread_1/runs/${ID}`, { metadata: {} })
    expect(await proxy.spent()).toEqual(both(cost))
  })

  test('is charged where the id is so short that it can be guessed', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { ...answer, id: 'chatcmpl-7' }))
    await proxy.post('/v1/responses/chatcmpl-7', {})
    expect(await proxy.spent()).toEqual(both(2709))
  })
})

describe('an answer to a GET', () => {
  test('is not charged for the usage in it: whoever caused that has paid', async () => {
    const usage = { input_tokens: 9, output_tokens: 2700 }
    const proxy = await llmProxy(await answeringLlm(200, { id: 'resp_1', status: 'completed', output: [], usage }))
    for (let i = 0; i < 5; i++) expect((await ask(proxy.port, 'GET', '/v1/responses/resp_1')).status).toBe(200)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('is not charged where its client does not wait for it', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = RawClient.connect(proxy.port)
    client.send('GET /v1/responses/resp_1 HTTP/1.1\r\nHost: a\r\n\r\n')
    const call = await backend.next()
    call.begin({ 'Content-Type': 'application/json' })
    await call.write('{"id":"resp_1"')
    await client.sees('resp_1')
    client.socket.destroy()
    await until(() => call.isAborted)
    expect(await proxy.spent()).toEqual(both(0))
  })

  test('is charged where its request has a prompt', async () => {
    const proxy = await llmProxy(await answeringLlm(200, { usage: { prompt_tokens: 9, completion_tokens: 90 } }))
    const body = JSON.stringify(ASKED)
    await askRaw(proxy.port, `GET ${CHAT} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    expect(await proxy.spent()).toEqual(both(99))
  })
})

describe('an answer that cannot be counted', () => {
  test('nested deeper than 1,000 levels: it passes whole, and costs its size if that is more than was reserved', async () => {
    const body = `{"usage":{"total_tokens":1},"a":${'['.repeat(1000)}${']'.repeat(1000)}}`
    const proxy = await llmProxy(await answeringLlm(200, body))
    expect((await proxy.post(CHAT, ASKED)).body).toBe(body)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + Math.ceil((body.length - ':1'.length) / 4)))
  })

  test('but not one above EDGE_MAX_BODY_BYTES: that is a limit of what is kept', async () => {
    const body = JSON.stringify({ usage: { total_tokens: 1 }, padding: 'x'.repeat(300 * 1024) })
    const proxy = await llmProxy(await answeringLlm(200, body), { env: { EDGE_MAX_BODY_BYTES: '200k' } })
    const answer = await proxy.post(CHAT, ASKED)
    expect(answer.body).toBe(body)
    expect(await proxy.spent()).toEqual(both(1))
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
