import { describe, expect, test } from 'vitest'
import { newTally, type Tally } from '../usage.ts'
import { ChatDialect } from './chat.ts'
import type { Closing } from './dialect.ts'

const COUNTS = { prompt: 11, completion: 31 }
const USAGE = { prompt_tokens: 11, completion_tokens: 31, total_tokens: 42 }
const HEAD = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1741570283, model: 'gpt-4o' }

function chunk(...choices: readonly object[]): Record<string, unknown> {
  return { ...HEAD, choices }
}

function choice(delta: unknown, finishReason: string | null = null, index = 0): object {
  return { index, delta, finish_reason: finishReason }
}

function tallyOf(...events: readonly Record<string, unknown>[]): Tally {
  const [dialect, tally] = [new ChatDialect(), newTally()]
  for (const event of events) {
    dialect.read(event, tally)
    dialect.remember(event)
  }
  return tally
}

/** The JSON of the closing event, after these events. */
function closing(events: readonly Record<string, unknown>[], how: Closing = 'graceful_close', hasUsage = true): unknown {
  const dialect = new ChatDialect()
  for (const event of events) {
    dialect.read(event, newTally())
    dialect.remember(event)
  }
  const [, json] = /^data: (.*)\n\ndata: \[DONE\]\n\n$/.exec(dialect.closing(how, COUNTS, hasUsage))!
  return JSON.parse(json!)
}

describe('a chat stream', () => {
  test.each([
    ['content', { content: 'Hello' }, 5],
    [
      'content parts',
      {
        content: [
          { type: 'text', text: 'Hello' },
          { type: 'text', text: '!' },
        ],
      },
      6,
    ],
    ['a refusal', { content: null, refusal: 'No.' }, 3],
    ['reasoning', { content: null, reasoning_content: 'Hm' }, 2],
    ['reasoning by its other name', { reasoning: 'Hmm' }, 3],
    ['reasoning under both names once', { reasoning: 'Hmm', reasoning_content: 'Hmm' }, 3],
    ['reasoning beside its other name that is empty', { reasoning_content: '', reasoning: 'Hmm' }, 3],
    ['reasoning that is a part of the content', { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hmm' }] }] }, 3],
    ['reasoning that is a text in such a part', { content: [{ type: 'thinking', thinking: 'Hmm' }] }, 3],
    [
      'arguments of several calls',
      {
        tool_calls: [
          { index: 0, function: { arguments: '{"a' } },
          { index: 1, function: { arguments: '}' } },
        ],
      },
      4,
    ],
    ['arguments of a call of old', { function_call: { name: 'f', arguments: '{}' } }, 2],
    [
      'no name of a call',
      { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '' } }] },
      0,
    ],
    ['no role', { role: 'assistant' }, 0],
    ['code points', { content: '😀é' }, 2],
    ['nothing that is no text', { content: 5, refusal: [], reasoning: {}, tool_calls: 'x', function_call: null }, 0],
  ])('counts %s', (_, delta, characters) => {
    expect(tallyOf(chunk(choice(delta))).characters).toBe(characters)
  })

  test('counts all choices and all chunks together', () => {
    expect(
      tallyOf(chunk(choice({ content: 'ab' }, null, 0), choice({ content: 'cd' }, null, 1)), chunk(choice({ content: 'e' }))).characters,
    ).toBe(5)
  })

  test('counts the text of completions', () => {
    expect(
      tallyOf({
        choices: [
          { index: 0, text: 'Hello' },
          { index: 1, text: '!' },
        ],
      }).characters,
    ).toBe(6)
  })

  test('counts what has no index, and what has the index of a crowd', () => {
    expect(tallyOf({ choices: [{ delta: { content: 'abc' } }] }).characters).toBe(3)
    const crowd = Array.from({ length: 3000 }, (_, index) => choice({ content: 'x' }, null, index))
    expect(tallyOf(chunk(...crowd)).characters).toBe(3000)
  })

  test.each([
    [{ choices: [] }],
    [{ choices: [null, 5, 'x', [], {}] }],
    [{ choices: {} }],
    [{ choices: [{ delta: null, index: 'x' }] }],
    [{}],
  ])('may bring nonsense: %j', (event) => {
    expect(tallyOf(event)).toEqual(newTally())
  })

  test('tells usage in a chunk without choices, beside content, or cumulatively in each', () => {
    expect(tallyOf({ ...chunk(), usage: USAGE })).toMatchObject({ promptTokens: 11, completionTokens: 31 })
    expect(
      tallyOf({ ...chunk(choice({ content: 'x' })), usage: { ...USAGE, completion_tokens: 1 } }, { ...chunk(), usage: USAGE }),
    ).toMatchObject({
      characters: 1,
      promptTokens: 11,
      completionTokens: 31,
    })
  })

  test('has not told usage where that is null', () => {
    expect(tallyOf({ ...chunk(), usage: USAGE }, { ...chunk(), usage: null })).toMatchObject({ promptTokens: 11, completionTokens: 31 })
    expect(tallyOf({ ...chunk(), usage: null })).toEqual({ ...newTally(), model: 'gpt-4o' })
  })

  test('says what its events mean', () => {
    const dialect = new ChatDialect()
    expect(dialect.read(chunk(choice({ content: 'x' })), newTally())).toBe('content')
    expect(dialect.read(chunk(choice({}, 'stop')), newTally())).toBe('content')
    expect(dialect.read({ error: { message: 'x' } }, newTally())).toBe('error')
    expect(dialect.read({ ...chunk(), error: null }, newTally())).toBe('content')
  })
})

describe('a chat stream that is cut', () => {
  const events = [chunk(choice({ role: 'assistant', content: '' })), chunk(choice({ content: 'Hello' }))]

  test('ends gracefully with length, usage and [DONE], in the words of the specification', () => {
    expect(new ChatDialect().closing('graceful_close', COUNTS, true)).toBe(
      'data: {"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":31,"total_tokens":42}}\n\ndata: [DONE]\n\n',
    )
  })

  test('ends with an error, usage and [DONE], in the words of the specification', () => {
    expect(new ChatDialect().closing('error_chunk', COUNTS, true)).toBe(
      'data: {"error":{"message":"max completion tokens exceeded","type":"rate_limit_error","code":"completion_tokens_exceeded"},' +
        '"usage":{"prompt_tokens":11,"completion_tokens":31,"total_tokens":42}}\n\ndata: [DONE]\n\n',
    )
  })

  test('has no usage at its end where none is wanted', () => {
    expect(closing([], 'graceful_close', false)).toEqual({ choices: [{ delta: {}, finish_reason: 'length' }] })
    expect(closing([], 'error_chunk', false)).toEqual({
      error: { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' },
    })
  })

  test('repeats its own id, object, created, model and index', () => {
    expect(closing(events)).toEqual({ ...HEAD, choices: [{ index: 0, delta: {}, finish_reason: 'length' }], usage: USAGE })
  })

  test('repeats no other field', () => {
    expect(
      closing([{ ...events[0], service_tier: 'default', system_fingerprint: 'fp', usage: null, x: 1 }], 'graceful_close', false),
    ).toEqual({
      ...HEAD,
      choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
    })
  })

  test('repeats the fields of its chunks, though another event came before them', () => {
    expect(closing([{ choices: [], prompt_filter_results: [] }, ...events])).toMatchObject(HEAD)
  })

  test('repeats no field that it has not seen', () => {
    expect(closing([{ id: 'chatcmpl-1', choices: [choice({ content: 'x' })] }], 'graceful_close', false)).toEqual({
      id: 'chatcmpl-1',
      choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
    })
  })

  test('closes each choice that is still open, and none that has ended', () => {
    const three = chunk(choice({ content: 'a' }, null, 0), choice({ content: 'b' }, null, 1), choice({ content: 'c' }, null, 2))
    expect(closing([three, chunk(choice({}, 'stop', 1))], 'graceful_close', false)).toEqual({
      ...HEAD,
      choices: [
        { index: 0, delta: {}, finish_reason: 'length' },
        { index: 2, delta: {}, finish_reason: 'length' },
      ],
    })
  })

  test('takes a choice without a finish_reason for an open one', () => {
    expect(closing([{ choices: [{ index: 3, delta: { content: 'a' } }] }], 'graceful_close', false)).toEqual({
      choices: [{ index: 3, delta: {}, finish_reason: 'length' }],
    })
  })

  test('ends as completions do where it is one', () => {
    const head = { id: 'cmpl-1', object: 'text_completion', created: 1690759702, model: 'gpt-3.5-turbo-instruct' }
    const text = { ...head, choices: [{ text: 'Hi', index: 0, logprobs: null, finish_reason: null }] }
    expect(closing([text])).toEqual({ ...head, choices: [{ index: 0, text: '', logprobs: null, finish_reason: 'length' }], usage: USAGE })
  })

  test('is not closed without bound: no API gives a thousand choices', () => {
    const crowd = Array.from({ length: 5000 }, (_, index) => choice({ content: 'x' }, null, index))
    const { choices } = closing([chunk(...crowd)]) as { choices: unknown[] }
    expect(choices).toHaveLength(1024)
  })

  test('knows the end of a choice that it remembers, however many came after it', () => {
    const crowd = Array.from({ length: 1024 }, (_, index) => choice({ content: 'x' }, null, index))
    const { choices } = closing([chunk(...crowd), chunk(choice({}, 'stop', 7))]) as { choices: { index: number }[] }
    expect(choices).toHaveLength(1023)
    expect(choices.some(({ index }) => index === 7)).toBe(false)
  })
})
