import { describe, expect, test } from 'vitest'
import { judgeLlmRequest, readLlmRequest } from '../../test/support/llm/json-readers.ts'
import { comparable, requestByTree } from '../../test/support/llm/json-tree.ts'
import { inReusedMemory } from '../../test/support/llm/reused-memory.ts'
import { LlmRequestReader } from './llm-request.ts'

describe('the prompt estimate', () => {
  test.each([
    ['a chat message', { messages: [{ role: 'user', content: 'x'.repeat(40) }] }, 10],
    ['all messages together, rounded up once', { messages: Array(4).fill({ role: 'user', content: 'x' }) }, 1],
    [
      'text parts',
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'x'.repeat(8) },
              { type: 'text', text: 'y'.repeat(4) },
            ],
          },
        ],
      },
      3,
    ],
    [
      'no bytes of a picture',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }] },
      0,
    ],
    ['no role, name or model', { model: 'gpt-4o', messages: [{ role: 'developer', name: 'someone', content: 'x'.repeat(4) }] }, 1],
    ['a message without content', { messages: [{ role: 'assistant', content: null }, { role: 'assistant' }] }, 0],
    [
      'the arguments of earlier calls and their results',
      {
        messages: [
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: 'x'.repeat(12) } }],
          },
          { role: 'tool', tool_call_id: 'c', content: 'y'.repeat(8) },
        ],
      },
      5,
    ],
    ['a system text beside the messages', { system: 'x'.repeat(20), messages: [{ role: 'user', content: 'y'.repeat(20) }] }, 10],
    ['a system of text blocks', { system: [{ type: 'text', text: 'x'.repeat(8), cache_control: { type: 'ephemeral' } }], messages: [] }, 2],
    [
      'the text of a tool result',
      {
        messages: [
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'x'.repeat(16) }] }] },
        ],
      },
      4,
    ],
    [
      'a tool result that is one text',
      { messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'x'.repeat(16) }] }] },
      4,
    ],
    ['a prompt', { prompt: 'x'.repeat(9) }, 3],
    ['a list of prompts', { prompt: ['x'.repeat(5), 'y'.repeat(5)] }, 3],
    ['a prompt of token ids', { prompt: [1212, 318, 257, 1332, 13] }, 5],
    ['a list of prompts of token ids', { prompt: [[1212, 318], [257]] }, 3],
    ['an input to embed', { input: 'x'.repeat(8) }, 2],
    ['inputs to embed', { input: ['x'.repeat(8), 'y'.repeat(8)] }, 4],
    ['inputs to embed as token ids', { input: [[1, 2, 3], [4]] }, 4],
    ['instructions beside an input', { instructions: 'x'.repeat(12), input: 'y'.repeat(12) }, 6],
    ['input messages', { input: [{ role: 'user', content: [{ type: 'input_text', text: 'x'.repeat(20) }] }] }, 5],
    [
      'input items of a call and its output',
      {
        input: [
          { type: 'function_call', call_id: 'c', name: 'f', arguments: 'x'.repeat(8) },
          { type: 'function_call_output', call_id: 'c', output: 'y'.repeat(8) },
        ],
      },
      4,
    ],
    ['definitions of tools as they are written', { messages: [], tools: [{ type: 'function', function: { name: 'f' } }] }, 12],
    ['functions', { messages: [], functions: [{ name: 'x'.repeat(26) }] }, 10],
    ['the form of a response', { messages: [], response_format: { type: 'json_schema' } }, 6],
    ['what nobody knows, above 256 characters', { prompt: '', guided: { json: 'x'.repeat(389) } }, 100],
    [
      'what nobody knows, however it is divided',
      { prompt: '', ...Object.fromEntries([1, 2, 3].map((i) => [`x${i}`, 'x'.repeat(100)])) },
      75,
    ],
    ['nothing of 256 characters that nobody knows', { prompt: '', user: 'x'.repeat(200), stop: 'y'.repeat(56) }, 0],
    ['no notes, weights or pictures', { prompt: '', metadata: { a: 'x'.repeat(999) }, logit_bias: {}, images: ['x'.repeat(999)] }, 0],
    [
      'the arguments of a call that are an object',
      { messages: [{ content: [{ type: 'tool_use', input: { city: 'x'.repeat(29) } }] }] },
      10,
    ],
    ['what was done with tools', { input: [{ code: 'x'.repeat(8) }, { stdout: 'y'.repeat(8) }, { action: { commands: ['ls'] } }] }, 9],
    ['tools that were listed', { input: [{ type: 'mcp_list_tools', tools: [{ description: 'x'.repeat(20) }] }] }, 10],
    [
      'what is put into a prompt that is kept',
      { prompt: { id: 'p', variables: { a: 'x'.repeat(200), b: { text: 'y'.repeat(200) } } } },
      100,
    ],
    ['no picture that is put into it', { prompt: { variables: { a: { type: 'input_image', image_url: 'x'.repeat(999) } } } }, 0],
    ['a name in another case inside', { messages: [{ content: 'xxxx', Content: 'y'.repeat(396), conſent: 'z' }] }, 100],
    ['text beside bounds that are not at the top', { prompt: '', options: { num_predict: 9, stop: 'x'.repeat(400) } }, 100],
    ['the title and the context of a document', { messages: [{ content: [{ title: 'x'.repeat(4), context: 'y'.repeat(4) }] }] }, 2],
    ['nothing where the known fields are empty', { messages: [] }, 0],
    ['nothing where the one known field is null', { prompt: null, model: 'gpt-3.5-turbo-instruct' }, 0],
    ['nothing where a known field is nonsense', { messages: { a: 'text' }, prompt: null, input: true }, 0],
  ])('counts %s', (_, body, tokens) => {
    expect(readLlmRequest(JSON.stringify(body)).promptTokens).toBe(tokens)
  })

  test('counts code points, not UTF-16 units and not bytes', () => {
    expect(readLlmRequest(JSON.stringify({ prompt: '😀'.repeat(8) })).promptTokens).toBe(2)
    expect(readLlmRequest(JSON.stringify({ prompt: 'ß'.repeat(8) })).promptTokens).toBe(2)
    expect(readLlmRequest('{"prompt":"\\ud83d\\ude00\\u00df\\n\\""}').promptTokens).toBe(1)
  })

  test.each([
    ['has no known field', '{"query":"x","top_k":3}', 6],
    ['is a list', '["xxxx","yyyy"]', 4],
    ['is a string', '"0123456789"', 3],
    ['is no JSON', 'prompt=hello+world', 5],
    ['is JSON cut short', '{"prompt":"hello', 4],
    ['is empty', '', 0],
    ['is emoji', '😀😀😀😀', 1],
    ['only inherits a field from every object', '{"__proto__":{"prompt":""}}', 7],
  ])('counts the whole of a body that %s', (_, body, tokens) => {
    expect(readLlmRequest(body).promptTokens).toBe(tokens)
  })

  test.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 100])('ends where content is nested deeper than any API nests it: %i lists', (depth) => {
    for (const innermost of ['"x"', '1', '["x",1]', '{"text":"x"}']) {
      const body = `{"messages":${'[{"content":'.repeat(depth)}${innermost}${'}]'.repeat(depth)},"input":${'['.repeat(depth)}${innermost}${']'.repeat(depth)}}`
      expect(comparable(readLlmRequest(body))).toEqual(requestByTree(body))
    }
  })

  test('counts the last value of a name that comes again in a message, as JSON.parse does', () => {
    const body = '{"messages":[{"content":"xxxxxxxxxxxx","con\\u0074ent":"xxxx"},{"type":"text","data":"xxxx","type":"x"}]}'
    expect(readLlmRequest(body).promptTokens).toBe(1)
  })
})

describe('the tokens that a request asks for', () => {
  test.each([
    [{}, undefined],
    [{ max_tokens: 50 }, 50],
    [{ max_completion_tokens: 60 }, 60],
    [{ messages: undefined, input: '', max_output_tokens: 70 }, 70],
    [{ max_tokens: 1, max_completion_tokens: 5000 }, 5000],
    [{ max_tokens: 5000, max_completion_tokens: 1, max_output_tokens: 2 }, 5000],
    [{ max_output_tokens: 30, max_tokens: 20 }, 30],
    [{ max_tokens: 50, n: 4 }, 200],
    [{ max_tokens: 50, n: 1 }, 50],
    [{ n: 4 }, undefined],
  ])('of %j are %s', (fields, tokens) => {
    expect(readLlmRequest(JSON.stringify({ messages: [], ...fields })).requestedTokens).toBe(tokens)
  })

  test.each(['max_tokens', 'max_completion_tokens', 'n_predict', 'num_predict', 'max_new_tokens', 'n', 'best_of'])(
    'are without any bound where %s is there and no positive number, whatever else is said',
    (name) => {
      for (const value of [0, -1, 1.5, '1000', true, false, [50], {}]) {
        const body = { prompt: 'x', max_output_tokens: 7, [name]: value }
        expect([value, readLlmRequest(JSON.stringify(body)).requestedTokens]).toEqual([value, undefined])
      }
      expect(readLlmRequest(JSON.stringify({ max_output_tokens: 7, [name]: null })).requestedTokens).toBe(7)
    },
  )

  test.each([
    [{ max_tokens: 1, n_predict: 1000 }, 1000],
    [{ max_tokens: 1, num_predict: 1000 }, 1000],
    [{ max_tokens: 1, max_new_tokens: 1000 }, 1000],
    [{ max_tokens: 1, options: { num_predict: 1000 } }, 1000],
    [{ max_tokens: 1, options: { num_predict: '1000' } }, undefined],
    [{ max_tokens: 1, options: { num_predict: -1 } }, undefined],
    [{ max_tokens: 1, options: { num_predict: 0 } }, undefined],
    [{ max_tokens: 1, options: {} }, 1],
    [{ max_tokens: 1, options: { temperature: 1 } }, 1],
    [{ max_tokens: 1, parameters: { max_new_tokens: 1000 } }, 1000],
    [{ max_tokens: 1, parameters: { max_tokens: 3, best_of: 8 } }, 24],
    [{ max_tokens: 1, sampling_params: { max_new_tokens: 1000, n: 2 } }, 2000],
    [{ max_tokens: 1, extra_body: { max_tokens: 1000 } }, 1000],
    [{ max_tokens: 1, extra_body: { n: '1000' } }, undefined],
    [{ max_tokens: 10, n_cmpl: 8 }, 80],
    [{ max_tokens: 10, best_of: 8 }, 80],
    [{ max_tokens: 10, n: 2, best_of: 8 }, 80],
    [{ n_predict: -1 }, undefined],
  ])('are bounded as other servers spell it: %j by %s', (fields, tokens) => {
    expect(readLlmRequest(JSON.stringify({ prompt: 'x', ...fields })).requestedTokens).toBe(tokens)
  })

  test('have as many choices as are stated, even where another name for them is nonsense', () => {
    const body = { messages: [], max_tokens: 5, n: 60, best_of: 'x', n_cmpl: -1 }
    expect(readLlmRequest(JSON.stringify(body))).toMatchObject({ requestedTokens: undefined, choices: 60 })
  })

  test.each([
    [{ messages: [], max_output_tokens: 1 }, undefined],
    [{ messages: [], n_predict: 1 }, undefined],
    [{ prompt: 'x', options: { num_predict: 1 } }, undefined],
    [{ input: 'x', max_tokens: 1 }, undefined],
    [{ messages: [], input: '', max_output_tokens: 1 }, undefined],
    [{ messages: [], input: '', max_tokens: 1 }, undefined],
    [{ input: 'x', max_tokens: 5, max_output_tokens: 1 }, 5],
    [{ inputs: 'x', parameters: { max_new_tokens: 7 } }, 7],
    [{ text: 'x', sampling_params: { max_new_tokens: 7 } }, 7],
  ])('are not bounded by what another API calls a bound: %j by %s', (body, tokens) => {
    expect(readLlmRequest(JSON.stringify(body)).requestedTokens).toBe(tokens)
  })

  test.each([
    [{ messages: [], n_predict: 3000 }, 3000],
    [{ messages: [], max_output_tokens: 3000, n: 2 }, 6000],
    [{ input: 'x', max_tokens: 3000, options: { num_predict: 4000 } }, 4000],
    [{ messages: [], max_tokens: 'x', n_predict: 3000 }, 3000],
    [{ messages: [], n_predict: -1 }, undefined],
    [{ messages: [], max_tokens: 5, n_predict: 3000 }, undefined],
  ])('state what only makes a reservation larger: %j by %s', (body, tokens) => {
    expect(readLlmRequest(JSON.stringify(body)).foreignTokens).toBe(tokens)
  })

  test.each([
    [['x'], 10],
    [['x', 'y', ''], 30],
    [[1, 2, 3], 10],
    [
      [
        [1, 2],
        [3, 4],
      ],
      20,
    ],
    [[1, 'x', 2, { prompt_string: 'y' }, null], 20],
    [{ id: 'x' }, 10],
  ])('are those of each prompt: %j asks for %i', (prompt, tokens) => {
    expect(readLlmRequest(JSON.stringify({ prompt, max_tokens: 10 })).requestedTokens).toBe(tokens)
    expect(readLlmRequest(JSON.stringify({ prompt, n: 3 })).choices).toBe((3 * tokens) / 10)
  })

  test.each([
    ['{"max_tokens":1e308,"n":1e308}', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    ['{"max_tokens":9007199254740993,"n":2}', Number.MAX_SAFE_INTEGER, 2],
    ['{"max_tokens":1e999,"n":1e999}', undefined, 1],
    ['{"max_tokens":-1e999}', undefined, 1],
  ])('are never more than can be counted exactly: %s', (body, requestedTokens, choices) => {
    expect(readLlmRequest(body)).toMatchObject({ requestedTokens, choices })
  })

  test('are read however the number is spelled', () => {
    expect(readLlmRequest('{"max_tokens":5e1}').requestedTokens).toBe(50)
    expect(readLlmRequest('{"max_tokens":50.0}').requestedTokens).toBe(50)
  })

  test.each(['', 'max_tokens=5', '[{"max_tokens":5}]', 'null'])('of a body such as %j are unknown', (body) => {
    expect(readLlmRequest(body).requestedTokens).toBeUndefined()
  })
})

describe('a body that cannot be read', () => {
  // One of more than two million values: llm-request.slow.test.ts
  test.each([
    ['nested deeper than 1,000 levels', `{"a":${'['.repeat(1000)}${']'.repeat(1000)}}`],
    ['with a number of more than 256 characters', `{"a":1${'0'.repeat(256)}}`],
  ])('is too large: %s', (_, body) => {
    expect(judgeLlmRequest(body)).toBe('body_too_large')
  })

  test.each([
    ['1,000 levels', `{"metadata":${'['.repeat(999)}${']'.repeat(999)},"prompt":"x"}`],
    ['a number of 256 characters', `{"a":1${'0'.repeat(255)},"prompt":"x"}`],
  ])('is not one with %s', (_, body) => {
    expect(judgeLlmRequest(body)).toMatchObject({ promptTokens: 1 })
  })

  const padding = ' \n\r\t'.repeat(16 * 1024)

  test.each([
    ['before its JSON', `${padding} {"prompt":"x"}`],
    ['behind it', `{"prompt":"x"}${padding} `],
    ['on both sides', ` ${padding.slice(0, 1000)}{"prompt":"x"}${padding.slice(1000)}`],
    ['around a text', `"x"${padding} `],
    ['around a number', `${padding}5 `],
  ])('is too large: one with more than 64 KiB of white space %s', (_, body) => {
    expect(judgeLlmRequest(body)).toBe('body_too_large')
  })

  test.each([
    ['64 KiB of white space around its JSON', `${padding.slice(0, 1000)}{"prompt":"x"}${padding.slice(1000)}`],
    ['more of it inside', `{${padding} "prompt" :${padding}"x"${padding}} `],
  ])('is not one with %s', (_, body) => {
    expect(judgeLlmRequest(body)).toMatchObject({ promptTokens: 1 })
  })
})

describe('a name that is read', () => {
  const names = ['messages', 'system', 'prompt', 'input', 'instructions', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n']

  test.each([...names, 'stream', 'model'])('may not come twice, however it is spelled: %s', (name) => {
    const escaped = `\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}`
    expect(judgeLlmRequest(`{"${name}":1,"x":{"y":[]},"${escaped}":1}`)).toBe('repeated_descriptor')
    expect(judgeLlmRequest(`{"${name}":null,"${name}":null}`)).toBe('repeated_descriptor')
  })

  test('may come again further inside, and one that is not read may come twice', () => {
    expect(readLlmRequest('{"model":"m","user":1,"user":2,"metadata":{"model":"a","model":"b"}}').model).toBe('m')
  })

  test('may come twice in what is no JSON: it counts by its size', () => {
    expect(readLlmRequest('{"n":1,"n":2')).toMatchObject({ promptTokens: 3, choices: 1 })
  })
})

describe('the model', () => {
  test.each([
    ['"gpt-4o"', 'gpt-4o'],
    ['"gpt\\u002d4o"', 'gpt-4o'],
    ['"modèle 😀"', 'modèle 😀'],
    [`"${'m'.repeat(256)}"`, 'm'.repeat(256)],
    [`"${'m'.repeat(257)}"`, undefined],
    ['5', undefined],
    ['null', undefined],
    ['["gpt-4o"]', undefined],
  ])('of %s is %s', (spelled, model) => {
    expect(readLlmRequest(`{"model":${spelled}}`).model).toBe(model)
  })
})

test('a body in pieces costs the same as in one, though the memory of each piece is used again for the next', () => {
  const text =
    '{"model":"an\\/other","str\\u0065am":true,"max_tokens":1234567890,"n":3,"messages":[{"role":"user","content":"one \\u00e9 ä"}]}'
  for (const read of inReusedMemory(text, () => new LlmRequestReader())) expect(read).toEqual(readLlmRequest(text))
})

test.each([1, 7, 256, 4_294_967_296, 999_999_999_999_999, 1_000_000_000_000_001, 9_007_199_254_740_991])(
  'a number of tokens is read as JSON.parse reads it: %d',
  (tokens) => {
    expect(readLlmRequest(`{"messages":[],"max_tokens":${tokens}}`).requestedTokens).toBe(tokens)
  },
)

describe('a request for a stream', () => {
  test.each(['\ufeff{"stream":true}', '{"stream":true,"temperature":NaN}', '{"stream":true}}', 'stream=true'])('may be %j', (body) => {
    expect(readLlmRequest(body).isStream).toBe(true)
  })

  test('says stream true', () => {
    expect(readLlmRequest('{"messages":[],"stream":true}').isStream).toBe(true)
  })

  test.each(['{"stream":"true"}', '{"stream":1}', '{"stream":[]}', '{"stream":{"x":false}}'])('says so to lenient readers: %s', (body) => {
    expect(readLlmRequest(body).isStream).toBe(true)
  })

  test.each(['{}', '{"stream":false}', '{"stream":null}', '[true]', ''])('is not %s', (body) => {
    expect(readLlmRequest(body).isStream).toBe(false)
  })
})
