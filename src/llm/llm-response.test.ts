import { describe, expect, test } from 'vitest'
import { readAnswer, readPartialAnswer } from '../../test/support/llm/json-readers.ts'
import { inReusedMemory } from '../../test/support/llm/reused-memory.ts'
import { LlmResponseReader } from './llm-response.ts'
import { countTokens, type TokenCounts } from './usage.ts'

function cost(answer: unknown): TokenCounts {
  return countTokens(readAnswer(typeof answer === 'string' ? answer : JSON.stringify(answer)), 100)
}

const USAGE = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 }

describe('an answer that came whole', () => {
  test('costs what its usage says, in every dialect', () => {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(400) }, finish_reason: 'stop' }]
    expect(cost({ object: 'chat.completion', choices, usage: USAGE })).toMatchObject({ input: 9, output: 12 })
    expect(cost({ object: 'list', data: [{ embedding: [0.1] }], usage: { prompt_tokens: 8, total_tokens: 8 } })).toMatchObject({
      input: 8,
      output: 0,
    })
    expect(cost({ object: 'response', output: [], usage: { input_tokens: 36, output_tokens: 87, total_tokens: 123 } })).toMatchObject({
      input: 36,
      output: 87,
    })
    expect(
      cost({ type: 'message', content: [{ type: 'text', text: 'Hi' }], usage: { input_tokens: 10, output_tokens: 25 } }),
    ).toMatchObject({ input: 10, output: 25 })
  })

  test('costs the same in pieces, though the memory of each is used again for the next, which may be of another response', () => {
    const text = '{"model":"an\\/other","choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tok\\u0065ns":10,"completion_tokens":5}}'
    for (const read of inReusedMemory(text, () => new LlmResponseReader())) expect(read).toEqual(readAnswer(text))
    expect(readAnswer(text)).toMatchObject({ model: 'an/other' })
  })

  test('tells cached tokens apart, in every dialect', () => {
    const chat = { prompt_tokens: 9, completion_tokens: 12, prompt_tokens_details: { audio_tokens: 1, cached_tokens: 4 } }
    expect(cost({ choices: [], usage: chat })).toMatchObject({ input: 9, cachedInput: 4, cacheWrite: 0, output: 12 })
    const responses = { input_tokens: 9, input_tokens_details: { cache_write_tokens: 3, cached_tokens: 4 }, output_tokens: 12 }
    expect(cost({ output: [], usage: responses })).toMatchObject({ input: 9, cachedInput: 4, cacheWrite: 3, output: 12 })
    const anthropic = { input_tokens: 9, cache_creation_input_tokens: 30, cache_read_input_tokens: 40, output_tokens: 12 }
    const counts = { input: 79, cachedInput: 40, cacheWrite: 30, cacheWrite1h: 0, output: 12 }
    expect(cost({ type: 'message', content: [], usage: anthropic })).toMatchObject(counts)
    const hours = { ...anthropic, cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 } }
    expect(cost({ type: 'message', content: [], usage: hours })).toMatchObject({ ...counts, cacheWrite1h: 20 })
  })

  test('takes cached tokens from the last usage alone', () => {
    const first = '{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}'
    const text = `{"choices":[],"usage":${first},"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":null}}`
    expect(cost(text)).toMatchObject({ input: 9, cachedInput: 0, output: 1 })
  })

  test("costs the largest of the counts so far in a list of Gemini's, as in its events", () => {
    const part = (candidatesTokenCount: number | undefined, totalTokenCount?: number) => ({
      candidates: [{ content: { parts: [{ text: 'x' }] } }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount, totalTokenCount },
    })
    expect(cost([part(5), part(300, 310), part(0)])).toMatchObject({ input: 10, output: 300 })
    expect(cost([part(5, 15), { candidates: [] }, part(undefined)])).toMatchObject({ input: 10, output: 5 })
  })

  test('costs nothing where its usage says zero', () => {
    const choices = [{ index: 0, message: { content: 'x'.repeat(400) } }]
    expect(cost({ choices, usage: { prompt_tokens: 0, completion_tokens: 0 } })).toMatchObject({ input: 0, output: 0 })
  })

  test.each([
    ['chat choices together', { choices: [{ message: { content: 'x'.repeat(5) } }, { message: { content: 'y'.repeat(5) } }] }, 3],
    ['a refusal', { choices: [{ message: { content: null, refusal: 'x'.repeat(8) } }] }, 2],
    ['reasoning beside the content', { choices: [{ message: { content: 'x'.repeat(4), reasoning_content: 'y'.repeat(8) } }] }, 3],
    ['reasoning by its other name', { choices: [{ message: { content: 'x'.repeat(4), reasoning: 'y'.repeat(8) } }] }, 3],
    [
      'reasoning under both names once',
      { choices: [{ message: { content: '', reasoning: 'y'.repeat(8), reasoning_content: 'y'.repeat(8) } }] },
      2,
    ],
    ['reasoning beside its other name that is empty', { choices: [{ message: { reasoning_content: '', reasoning: 'y'.repeat(8) } }] }, 2],
    [
      'reasoning that is a part of the content',
      {
        choices: [
          {
            message: {
              content: [
                {
                  type: 'thinking',
                  thinking: [
                    { type: 'text', text: 'x'.repeat(4) },
                    { type: 'text', text: 'y'.repeat(4) },
                  ],
                },
                { type: 'thinking', thinking: 'z'.repeat(4) },
                { type: 'text', text: 'w'.repeat(4) },
              ],
            },
          },
        ],
      },
      4,
    ],
    [
      'the arguments of calls',
      {
        choices: [
          {
            message: {
              content: null,
              tool_calls: [{ function: { arguments: 'x'.repeat(4) } }, { function: { arguments: 'y'.repeat(4) } }],
            },
          },
        ],
      },
      2,
    ],
    [
      'the arguments of a call of old',
      { choices: [{ message: { content: null, function_call: { name: 'f', arguments: 'x'.repeat(8) } } }] },
      2,
    ],
    ['content parts', { choices: [{ message: { content: [{ type: 'text', text: 'x'.repeat(8) }] } }] }, 2],
    [
      'completions',
      {
        object: 'text_completion',
        choices: [
          { index: 0, text: 'x'.repeat(8) },
          { index: 1, text: 'y'.repeat(4) },
        ],
      },
      3,
    ],
    [
      'a Responses output',
      {
        object: 'response',
        output: [
          { type: 'reasoning', summary: [{ type: 'summary_text', text: 'x'.repeat(4) }] },
          {
            type: 'message',
            content: [
              { type: 'output_text', text: 'y'.repeat(4) },
              { type: 'refusal', refusal: 'z'.repeat(4) },
            ],
          },
          { type: 'function_call', arguments: 'a'.repeat(4) },
          { type: 'custom_tool_call', input: 'b'.repeat(4) },
        ],
      },
      5,
    ],
    [
      'an Anthropic message',
      {
        type: 'message',
        content: [
          { type: 'thinking', thinking: 'x'.repeat(4), signature: 's'.repeat(99) },
          { type: 'text', text: 'y'.repeat(4) },
          { type: 'tool_use', id: 't', name: 'f', input: { a: 1 } },
          { type: 'tool_use', id: 't', name: 'f', input: {} },
        ],
      },
      4,
    ],
    ['code points', { choices: [{ message: { content: '😀'.repeat(4) } }] }, 1],
  ])('costs a quarter of its text where it has no usage: %s', (_, answer, completion) => {
    expect(cost(answer)).toMatchObject({ input: 100, output: completion })
  })

  test.each([
    ['JSON of another kind', { result: 'x'.repeat(400) }],
    ['a list', [{ choices: [{ message: { content: 'x'.repeat(400) } }] }]],
    ['an error', { error: { message: 'x'.repeat(400), type: 'server_error' } }],
    ['content that is no message', { type: 'file', content: [{ text: 'x'.repeat(400) }] }],
    ['embeddings', { object: 'list', data: [{ embedding: Array(400).fill(0.25) }] }],
    ['text', 'x'.repeat(400)],
    ['JSON cut short', '{"choices":[{"message":{"content":"xxxxxxxx'],
    ['nothing', ''],
  ])('has generated nothing where no text in it is known: %s', (_, answer) => {
    expect(cost(answer)).toMatchObject({ input: 100, output: 0 })
  })

  test.each([
    [{ choices: null }],
    [{ choices: {} }],
    [{ choices: [null, 1, 'x', [], {}, { message: null }, { message: [] }, { message: { content: 5, tool_calls: {}, refusal: [] } }] }],
    [{ choices: [{ message: { content: [null, 1, 'x', { text: 5 }], tool_calls: [null, {}, { function: null }], function_call: null } }] }],
    [{ output: [null, 1, [], { content: null, summary: 'x' }, { content: [null, 1, { text: null }] }] }],
    [{ type: 'message', content: [null, 1, { text: 5, input: ['x'] }, { input: 'x' }] }],
    [{ usage: [] }],
    [{ usage: 'x' }],
  ])('may be nonsense: %j', (answer) => {
    expect(cost(answer)).toMatchObject({ input: 100, output: 0 })
  })
})

describe('an answer that broke off', () => {
  const seen = (body: string): number => readPartialAnswer(body).characters

  test.each([
    ['a message', '{"choices":[{"message":{"content":"abcd', 4],
    ['several choices', '{"choices":[{"message":{"content":"abcd"}},{"message":{"content":"ef', 6],
    ['completions', '{"choices":[{"text":"abcd"},{"text":"ef', 6],
    ['a call', '{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\\"a\\":', 5],
    ['a Responses output', '{"output":[{"content":[{"type":"output_text","text":"abcd"', 4],
    ['an Anthropic message', '{"id":"m","type":"message","content":[{"type":"text","text":"abcd"},{"type":"thinking","thinking":"ef', 6],
    ['an Anthropic message that has not said so yet', '{"content":[{"text":"abcd"}],"type":"mess', 4],
    ['an Anthropic tool call', '{"type":"message","content":[{"type":"tool_use","input":{"a":"bc', 10],
    ['an escaped pair', '{"choices":[{"text":"\\ud83d\\ude00\\ud83d\\ude00', 2],
    ['half of an escaped pair', '{"choices":[{"text":"a\\ud83d\\ude', 2],
    ['an escape', '{"choices":[{"text":"a\\', 1],
    ['all but the last bracket', '{"choices":[{"text":"abcd"}],"usage":{"completion_tokens":99}', 4],
  ])('has brought the text that is there: %s', (_, body, characters) => {
    expect(seen(body)).toBe(characters)
  })

  test.each(['', '{', '{"choices":[{"mess', '{"result":{"content":"abcd', '{"type":"file","content":[{"text":"abcd', 'oops {"text":"abcd'])(
    'has brought nothing that is known: %s',
    (body) => {
      expect(seen(body)).toBe(0)
    },
  )
})
