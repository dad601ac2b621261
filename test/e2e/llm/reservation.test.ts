import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import {
  both,
  CHAT,
  COMPLETIONS,
  EMBEDDINGS,
  HELLO,
  HELLO_TOKENS,
  type LlmProxy,
  llmProxy,
  MESSAGES,
  proxyEnv,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { answeringLlm, type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const MAX_COMPLETION = 100
const suite = thisSuite()
let backend: ScriptedLlm
let bounded: LlmProxy
let unbounded: LlmProxy
let callers = 0

beforeAll(async () => {
  backend = await scriptedLlm(undefined, suite)
  const limitKeys = ['header:x-caller']
  bounded = await llmProxy(backend, { limitKeys, config: { max_completion_tokens: MAX_COMPLETION } }, suite)
  unbounded = await llmProxy(backend, { limitKeys }, suite)
})

/** What the request of a new caller holds while it waits for its answer. An answer of status 500 then gives it all back. */
async function reservedFor(path: string, body: object | string, proxy = bounded): Promise<number> {
  const caller = [['X-Caller', String(callers++)]] as const
  const answered = proxy.post(path, body, caller)
  const call = await backend.next()
  const { minute, day } = await proxy.held(caller)
  expect(minute).toBe(day)
  call.answer(500, { error: { message: 'no' } })
  await answered
  expect(await proxy.spent(caller)).toEqual(both(0))
  return day
}

describe('the prompt is ceil(characters / 4) over all its text', () => {
  test.for([
    ['chat', CHAT, { messages: HELLO }, 3],
    ['chat with several messages', CHAT, { messages: [...HELLO, { role: 'assistant', content: 'hi' }, ...HELLO] }, 7],
    [
      'chat with text parts',
      CHAT,
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'hello there!' },
              { type: 'image_url', image_url: { url: 'data:' } },
            ],
          },
        ],
      },
      3,
    ],
    ['chat without text', CHAT, { messages: [] }, 0],
    ['completions', COMPLETIONS, { prompt: 'hello there' }, 3],
    ['completions with several prompts', COMPLETIONS, { prompt: ['hello', 'there!!'] }, 3],
    ['completions with tokens', COMPLETIONS, { prompt: [1, 2, 3, 4, 5] }, 5],
    ['Responses', RESPONSES, { input: 'hello there!', instructions: 'be nice!' }, 5],
    [
      'Responses with items',
      RESPONSES,
      { input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello there!' }] }] },
      3,
    ],
    ['Anthropic', MESSAGES, { system: 'be nice!', messages: HELLO }, 5],
    ['Anthropic with system blocks', MESSAGES, { system: [{ type: 'text', text: 'be nice!' }], messages: HELLO }, 5],
    ['code points, not UTF-16 units', CHAT, { messages: [{ role: 'user', content: '😀😀😀😀' }] }, 1],
  ] as const)('%s', async ([, path, body, tokens]) => {
    expect(await reservedFor(path, body)).toBe(tokens + MAX_COMPLETION)
  })

  test('no known field: over the whole body', async () => {
    expect(await reservedFor(CHAT, '{"question":"who are you"}')).toBe(Math.ceil(26 / 4) + MAX_COMPLETION)
    expect(await reservedFor(CHAT, 'this is no JSON!')).toBe(4 + MAX_COMPLETION)
    expect(await reservedFor(CHAT, '')).toBe(MAX_COMPLETION)
  })

  test('embeddings reserve their prompt and no completion', async () => {
    expect(await reservedFor(EMBEDDINGS, { input: 'hello there!' })).toBe(3)
    expect(await reservedFor(EMBEDDINGS, { input: ['hello', 'there!!'], max_tokens: 50 })).toBe(3)
    expect(await reservedFor(`${EMBEDDINGS}?x=1`, { input: [[1, 2], [3]] })).toBe(3)
  })

  test('a compressed body is read, and reaches the backend as it came', async () => {
    const bytes = gzipSync(JSON.stringify({ messages: HELLO, max_tokens: 7 }))
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const req = request({ port: proxy.port, method: 'POST', path: CHAT, headers: { 'Content-Encoding': 'gzip' }, agent: false })
    req.end(bytes)
    const call = await backend.next()
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 7))
    expect([call.req.headers['content-encoding'], call.req.headers['content-length']]).toEqual(['gzip', String(bytes.length)])
    const closed = new Promise((resolve) => {
      req.on('response', (res) => res.resume().on('end', resolve))
    })
    call.answer(500, {})
    await closed
    expect(await proxy.spent()).toEqual(both(0))
  })
})

describe('the completion is the smaller of what is asked and what is configured', () => {
  test.for([
    ['asked for less', { max_tokens: 7 }, MAX_COMPLETION, 7],
    ['asked for more', { max_tokens: 700 }, MAX_COMPLETION, 100],
    ['nothing asked', {}, MAX_COMPLETION, 100],
    ['nothing configured', { max_tokens: 700 }, undefined, 700],
    ['neither', {}, undefined, 1000],
    ['max_completion_tokens', { max_completion_tokens: 9 }, MAX_COMPLETION, 9],
    ['max_output_tokens', { max_output_tokens: 11 }, MAX_COMPLETION, 11],
    ['the largest of several', { max_tokens: 1, max_completion_tokens: 5000, max_output_tokens: 20 }, undefined, 5000],
    ['times n', { max_tokens: 7, n: 3 }, MAX_COMPLETION, 21],
    ['times n, up to what is configured', { max_tokens: 70, n: 3 }, MAX_COMPLETION, 100],
    ['n alone', { n: 3 }, MAX_COMPLETION, 100],
    ['n alone, nothing configured: so many for each choice', { n: 3 }, undefined, 3000],
    ['no positive integer: zero', { max_tokens: 0 }, MAX_COMPLETION, 100],
    ['no positive integer: negative', { max_tokens: -5 }, MAX_COMPLETION, 100],
    ['no positive integer: a fraction', { max_tokens: 1.5 }, MAX_COMPLETION, 100],
    ['no positive integer: text', { max_tokens: '5' }, MAX_COMPLETION, 100],
    ['no positive integer: null', { max_tokens: null, max_completion_tokens: 6 }, MAX_COMPLETION, 6],
    ['an n that is none', { max_tokens: 7, n: 0 }, MAX_COMPLETION, 7],
  ] as const)('%s', async ([, asked, configured, tokens]) => {
    const proxy = configured === undefined ? unbounded : bounded
    expect(await reservedFor(CHAT, { messages: HELLO, ...asked }, proxy)).toBe(HELLO_TOKENS + tokens)
  })
})

describe('two budgets', () => {
  const asked = (max_tokens: number) => ({ messages: [], max_tokens })
  const reasonOf = ({ status, headers }: Answer) => [status, headers['x-edge-reason'], headers['ratelimit-limit'], headers['retry-after']]

  async function budgets(config: object) {
    const backend = await answeringLlm(200, { usage: { prompt_tokens: 0, completion_tokens: 600, total_tokens: 600 } })
    const clock = new ManualClock()
    const rules = [llmRule('budget', [], config)]
    const edge = await running({ clock, bundle: bundle(1, policy('llm', { rules })), env: proxyEnv(backend) })
    const spend = (tokens: number) => ask(edge.port, 'POST', CHAT, [], JSON.stringify(asked(tokens)))
    return { backend, clock, spend }
  }

  test('the minute refills continuously, up to its burst', async () => {
    const { clock, spend } = await budgets({ tokens_per_minute: 600, burst_tokens: 1200 })
    expect((await spend(600)).headers['ratelimit-remaining']).toBe('600')
    expect((await spend(600)).headers['ratelimit-remaining']).toBe('0')
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '1200', '60'])
    clock.advance(30_000)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '1200', '30'])
    clock.advance(30_000)
    expect((await spend(600)).status).toBe(200)
    clock.advance(3_600_000)
    expect((await spend(1200)).headers['ratelimit-remaining']).toBe('0')
  })

  test('the day is a window that ends at midnight UTC', async () => {
    const { clock, spend } = await budgets({ tokens_per_day: 1000 })
    expect((await spend(600)).status).toBe(200)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', String(12 * 3600)])
    clock.advance(12 * 3_600_000 - 1)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', '1'])
    clock.advance(1)
    expect((await spend(600)).status).toBe(200)
  })

  test('both or neither are taken, and where the minute cannot cover a request that is the reason', async () => {
    const { clock, spend } = await budgets({ tokens_per_minute: 600, tokens_per_day: 1000 })
    expect((await spend(600)).status).toBe(200)
    // Neither can cover it: the minute names the reason, the day the wait.
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '600', String(12 * 3600)])
    clock.advance(60_000)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', String(12 * 3600 - 60)])
    // What the day refused took nothing from the minute, and the other way round.
    clock.advance(12 * 3_600_000 - 60_000)
    expect((await spend(600)).status).toBe(200)
  })
})

describe('before anything reaches the backend', () => {
  test('a body beyond EDGE_MAX_BODY_BYTES is 413 and takes nothing, whether or not its length is told', async () => {
    const backend = await answeringLlm(200, {})
    const proxy = await llmProxy(backend, { env: { EDGE_MAX_BODY_BYTES: '100k' } })
    const large = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(100 * 1024) }] })
    const told = await proxy.post(CHAT, large)
    const untold = await ask(proxy.port, 'POST', CHAT, [['Transfer-Encoding', 'chunked']], undefined)
    expect([told.status, told.headers['x-edge-reason']]).toEqual([413, 'body_too_large'])
    expect(untold.status).toBe(200)
    const status = await new Promise((resolve) => {
      const req = request({ port: proxy.port, method: 'POST', path: CHAT, agent: false }, (res) => {
        res.resume()
        resolve(res.statusCode)
      })
      req.on('error', () => {})
      req.write(large)
      req.end()
    })
    expect(status).toBe(413)
    expect(await proxy.spent()).toEqual(both(0))
    expect(backend.calls.length).toBe(1)
  })

  test('a body that is nested too deeply to be read is 413 and takes nothing, compressed or not', async () => {
    const answering = await answeringLlm(200, {})
    const proxy = await llmProxy(answering)
    const body = `{"max_tokens":1,"messages":${'['.repeat(2000)}]}`
    const packed = await ask(proxy.port, 'POST', CHAT, [['Content-Encoding', 'gzip']], gzipSync(body))
    expect([(await proxy.post(CHAT, body)).status, packed.status]).toEqual([413, 413])
    expect([await proxy.spent(), answering.calls]).toEqual([both(0), []])
  })

  test('a name that is read comes twice: 400, nothing is taken, and the backend is not asked', async () => {
    const backend = await answeringLlm(200, {})
    const proxy = await llmProxy(backend)
    for (const body of [
      '{"messages":[],"max_tokens":1,"max_tokens":100000}',
      '{"messages":[],"max_tokens":1,"max\\u005ftokens":100000}',
      '{"model":"cheap","\\u006dodel":"dear","messages":[]}',
      '{"messages":[{"content":"long"}],"messages":[]}',
      '{"messages":[],"n":1,"stream":true,"n":100}',
    ]) {
      const answer = await proxy.post(CHAT, body)
      expect([answer.status, answer.headers['x-edge-reason'], body]).toEqual([400, 'repeated_descriptor', body])
      const packed = await ask(proxy.port, 'POST', CHAT, [['Content-Encoding', 'gzip']], gzipSync(body))
      expect([packed.status, packed.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
    }
    expect(await proxy.spent()).toEqual(both(0))
    expect(backend.calls).toEqual([])
  })

  test('a name that is read only by readers that ignore case: 400, and nothing is taken', async () => {
    const backend = await answeringLlm(200, {})
    const proxy = await llmProxy(backend)
    for (const name of ['Max_Tokens', 'MAX_COMPLETION_TOKENS', 'N', 'Stream', 'ſtream', 'max_to\u212aens', 'M\\u004fdel', 'Messages']) {
      const answer = await proxy.post(CHAT, `{"messages":[],"max_tokens":1,"${name}":100000}`)
      expect([name, answer.status, answer.headers['x-edge-reason']]).toEqual([name, 400, 'bad_request'])
    }
    expect(await proxy.spent()).toEqual(both(0))
    expect(backend.calls).toEqual([])
    const inside = '{"messages":[{"role":"user","content":"hi","Content":"x","Max_Tokens":5}],"metadata":{"Stream":true},"Maximum":1}'
    expect((await proxy.post(CHAT, inside)).status).toBe(200)
  })

  test('a bound beyond all numbers is a reject like any other, and nothing infinite is told', async () => {
    const proxy = await llmProxy(await answeringLlm(200, {}))
    for (const bounds of ['"max_tokens":1e308,"n":1e308', '"n":1e308', '"max_output_tokens":9007199254740993,"n":9007199254740993']) {
      const { status, headers, body } = await proxy.post(CHAT, `{"messages":[],${bounds}}`)
      expect([status, headers['x-edge-reason'], headers['x-should-retry']]).toEqual([429, 'tpm_exceeded', 'false'])
      expect(body).toContain('this request needs 9007199254740991 tokens')
    }
    expect(await proxy.spent()).toEqual(both(0))
    const { body } = await proxy.edge.get('/metrics')
    expect(body.split('\n').filter((line) => /(?:Inf|NaN|e\+\d+)$/.test(line))).toEqual([])
  })

  test('a reject by a plain rule takes no token, and the other way round', async () => {
    const plain = policy('plain', { selector: { pathPrefix: '/v1/chat' }, rules: [bucketRule('calls', [], 1, 1e-6)] })
    const proxy = await llmProxy(await answeringLlm(200, { usage: { total_tokens: 50 } }), { policies: [plain] })
    const tooMuch = await proxy.post(CHAT, { messages: HELLO, max_tokens: 50_000 })
    expect([tooMuch.status, tooMuch.headers['x-edge-reason']]).toEqual([429, 'tpm_exceeded'])
    expect((await proxy.post(CHAT, { messages: HELLO })).status).toBe(200)
    const second = await proxy.post(CHAT, { messages: HELLO })
    expect([second.status, second.headers['x-edge-reason']]).toEqual([429, 'token_bucket_exceeded'])
    expect(await proxy.spent()).toEqual(both(50))
  })
})
