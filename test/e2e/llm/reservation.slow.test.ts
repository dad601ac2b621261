import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { both, CHAT, COMPLETIONS, HELLO, HELLO_TOKENS, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { MAX_COMPLETION, reserving } from '../../support/llm/reserving.ts'
import { answeringLlm } from '../../support/llm/scripted-llm.ts'
import { ask } from '../../support/service/http.ts'

const reservedFor = reserving()

describe('the prompt is ceil(characters / 4) over all its text', () => {
  test.for([
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
    ['completions with several prompts', COMPLETIONS, { prompt: ['hello', 'there!!'] }, 3],
    ['completions with tokens', COMPLETIONS, { prompt: [1, 2, 3, 4, 5] }, 5],
    [
      'Responses with items',
      RESPONSES,
      { input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello there!' }] }] },
      3,
    ],
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
})

describe('the completion is the smaller of what is asked and what is configured', () => {
  test.for([
    ['nothing asked', {}, MAX_COMPLETION, 100],
    ['nothing configured', { max_tokens: 700 }, undefined, 700],
    ['max_completion_tokens', { max_completion_tokens: 9 }, MAX_COMPLETION, 9],
    ['max_output_tokens', { messages: undefined, input: 'hello there!', max_output_tokens: 11 }, MAX_COMPLETION, 11],
    ['max_output_tokens, which chat does not have', { max_output_tokens: 11 }, MAX_COMPLETION, 100],
    ['the largest of several', { max_tokens: 1, max_completion_tokens: 5000, max_output_tokens: 20 }, undefined, 5000],
    ['times n, up to what is configured', { max_tokens: 70, n: 3 }, MAX_COMPLETION, 100],
    ['n alone', { n: 3 }, MAX_COMPLETION, 100],
    ['n alone, nothing configured: so many for each choice', { n: 3 }, undefined, 3000],
    ['no positive integer: zero', { max_tokens: 0 }, MAX_COMPLETION, 100],
    ['no positive integer: negative', { max_tokens: -5 }, MAX_COMPLETION, 100],
    ['no positive integer: a fraction', { max_tokens: 1.5 }, MAX_COMPLETION, 100],
    ['no positive integer: text', { max_tokens: '5' }, MAX_COMPLETION, 100],
    ['no positive integer: null', { max_tokens: null, max_completion_tokens: 6 }, MAX_COMPLETION, 6],
    ['an n that is none', { max_tokens: 7, n: 0 }, MAX_COMPLETION, 100],
  ] as const)('%s', async ([, asked, configured, tokens]) => {
    expect(await reservedFor(CHAT, { messages: HELLO, ...asked }, configured !== undefined)).toBe(HELLO_TOKENS + tokens)
  })
})

describe('before anything reaches the backend', () => {
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
})
