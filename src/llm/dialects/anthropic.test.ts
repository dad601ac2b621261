import { describe, expect, test } from 'vitest'
import { parseSse } from '../../../test/support/llm/llm-streams.ts'
import { newTally, type Tally } from '../usage.ts'
import { AnthropicDialect } from './anthropic.ts'
import type { Closing } from './dialect.ts'

const COUNTS = { prompt: 11, completion: 31 }
const START = { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 25, output_tokens: 2 } } }

type Event = Record<string, unknown>

function blockStart(index: unknown, block: object = { type: 'text', text: '' }): Event {
  return { type: 'content_block_start', index, content_block: block }
}

function blockDelta(delta: unknown): Event {
  return { type: 'content_block_delta', index: 0, delta }
}

function tallyOf(...events: readonly Event[]): Tally {
  const [dialect, tally] = [new AnthropicDialect(), newTally()]
  for (const event of events) {
    dialect.read(event, tally)
    dialect.remember(event)
  }
  return tally
}

/** Names and data of the closing events, after these. */
function closing(events: readonly Event[], how: Closing = 'graceful_close', hasUsage = true): [string | undefined, unknown][] {
  const dialect = new AnthropicDialect()
  for (const event of events) {
    dialect.read(event, newTally())
    dialect.remember(event)
  }
  return parseSse(dialect.closing(how, COUNTS, hasUsage)).map(({ event, data }) => [event, JSON.parse(data)])
}

describe('an Anthropic stream', () => {
  test.each([
    ['text', { type: 'text_delta', text: 'Hello' }, 5],
    ['thinking', { type: 'thinking_delta', thinking: 'Hm' }, 2],
    ['the input of a tool', { type: 'input_json_delta', partial_json: '{"a":' }, 5],
    ['no signature', { type: 'signature_delta', signature: 'EqQBCgIYAhIM' }, 0],
    ['code points', { type: 'text_delta', text: '😀é' }, 2],
    ['nothing that is no text', { type: 'text_delta', text: 5, thinking: [], partial_json: {} }, 0],
    ['nothing without a delta', null, 0],
  ])('counts %s', (_, delta, characters) => {
    expect(tallyOf(blockDelta(delta)).characters).toBe(characters)
  })

  test('counts what a block begins with', () => {
    expect(tallyOf(blockStart(0, { type: 'text', text: 'Hello' })).characters).toBe(5)
    expect(tallyOf(blockStart(0, { type: 'tool_use', name: 'f', input: { a: 1 } })).characters).toBe(7)
    expect(tallyOf(blockStart(0, { type: 'tool_use', name: 'f', input: {} })).characters).toBe(0)
  })

  test('tells its input at the start, and its output in message_delta alone', () => {
    expect(tallyOf(START)).toMatchObject({ characters: 0, promptTokens: 25, completionTokens: undefined })
    expect(tallyOf(START, { type: 'message_delta', delta: {}, usage: { output_tokens: 15 } })).toMatchObject({
      promptTokens: 25,
      completionTokens: 15,
    })
  })

  test('tells cumulative counts: the last one holds', () => {
    const deltas = [3, 9, 15].map((tokens) => ({
      type: 'message_delta',
      delta: {},
      usage: { input_tokens: 20 + tokens, output_tokens: tokens },
    }))
    expect(tallyOf(START, ...deltas)).toMatchObject({ promptTokens: 35, completionTokens: 15 })
  })

  test('tells an output of zero as well as any', () => {
    expect(tallyOf(START, { type: 'message_delta', delta: {}, usage: { output_tokens: 0 } })).toMatchObject({ completionTokens: 0 })
  })

  test.each([
    [{ type: 'message_start' }],
    [{ type: 'message_start', message: null }],
    [{ type: 'message_start', message: { usage: { input_tokens: 'x' } } }],
    [{ type: 'message_delta' }],
    [{ type: 'message_delta', usage: null }],
    [{ type: 'content_block_start', index: 'x', content_block: 5 }],
    [{ type: 'content_block_stop' }],
    [{ type: 'something_new', delta: { text: 'x' } }],
    [{ type: 5 }],
    [{}],
  ])('may bring nonsense: %j', (event) => {
    expect(tallyOf(event)).toEqual(newTally())
  })

  test.each([
    ['message_start', 'content'],
    ['content_block_start', 'content'],
    ['content_block_delta', 'content'],
    ['content_block_stop', 'content'],
    ['message_delta', 'content'],
    ['ping', 'content'],
    ['something_new', 'content'],
    ['message_stop', 'end'],
    ['error', 'error'],
  ])('says with %s: %s', (type, meaning) => {
    expect(new AnthropicDialect().read({ type }, newTally())).toBe(meaning)
  })
})

describe('an Anthropic stream that is cut', () => {
  test('stops its open block, then the message for max_tokens', () => {
    expect(closing([START, blockStart(0), blockDelta({ type: 'text_delta', text: 'Hello' })])).toEqual([
      ['content_block_stop', { type: 'content_block_stop', index: 0 }],
      [
        'message_delta',
        {
          type: 'message_delta',
          delta: { stop_reason: 'max_tokens', stop_sequence: null },
          usage: { input_tokens: 11, output_tokens: 31 },
        },
      ],
      ['message_stop', { type: 'message_stop' }],
    ])
  })

  test('stops no block that has stopped, and every one that has not', () => {
    const events = closing([
      blockStart(0),
      { type: 'content_block_stop', index: 0 },
      blockStart(1),
      blockStart(2),
      { type: 'content_block_stop' },
    ])
    expect(events.slice(0, 2).map(([, data]) => data)).toEqual([
      { type: 'content_block_stop', index: 1 },
      { type: 'content_block_stop', index: 2 },
    ])
    expect(events.slice(2).map(([name]) => name)).toEqual(['message_delta', 'message_stop'])
  })

  test('stops nothing where no block is open', () => {
    expect(closing([START, blockStart('x')]).map(([name]) => name)).toEqual(['message_delta', 'message_stop'])
  })

  test('tells its output alone where no usage is wanted: clients count on it', () => {
    expect(closing([START], 'graceful_close', false)[0]![1]).toMatchObject({ usage: { output_tokens: 31 } })
    expect(closing([START], 'graceful_close', false)[0]![1]).not.toHaveProperty('usage.input_tokens')
  })

  test('ends with an error event and nothing else where that is wanted', () => {
    const error = { type: 'rate_limit_error', message: 'max completion tokens exceeded', code: 'completion_tokens_exceeded' }
    expect(closing([START, blockStart(0)], 'error_chunk')).toEqual([
      ['error', { type: 'error', error, usage: { input_tokens: 11, output_tokens: 31 } }],
    ])
    expect(closing([START, blockStart(0)], 'error_chunk', false)).toEqual([['error', { type: 'error', error }]])
  })

  test('is not closed without bound: no message has a thousand blocks', () => {
    expect(closing(Array.from({ length: 5000 }, (_, index) => blockStart(index)))).toHaveLength(1024 + 2)
  })
})
