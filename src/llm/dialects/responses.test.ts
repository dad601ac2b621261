import { describe, expect, test } from 'vitest'
import { parseSse } from '../../../test/support/llm/llm-streams.ts'
import { newTally, type Tally } from '../usage.ts'
import type { Closing } from './dialect.ts'
import { ResponsesDialect } from './responses.ts'

const COUNTS = { prompt: 11, completion: 31 }
const USAGE = { input_tokens: 11, output_tokens: 31, total_tokens: 42 }
const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  created_at: 1741487325,
  status: 'in_progress',
  model: 'gpt-4.1',
  output: [],
  usage: null,
}

type Event = Record<string, unknown>

function tallyOf(...events: readonly Event[]): Tally {
  const [dialect, tally] = [new ResponsesDialect(), newTally()]
  for (const event of events) {
    dialect.read(event, tally)
    dialect.remember(event)
  }
  return tally
}

/** Name and data of the one closing event, after these. */
function closing(events: readonly Event[], how: Closing = 'graceful_close', hasUsage = true): [string | undefined, unknown] {
  const dialect = new ResponsesDialect()
  for (const event of events) {
    dialect.read(event, newTally())
    dialect.remember(event)
  }
  const [only, ...rest] = parseSse(dialect.closing(how, COUNTS, hasUsage))
  expect(rest).toEqual([])
  return [only!.event, JSON.parse(only!.data)]
}

describe('a Responses stream', () => {
  test.each([
    ['response.output_text.delta'],
    ['response.refusal.delta'],
    ['response.function_call_arguments.delta'],
    ['response.reasoning_summary_text.delta'],
    ['response.reasoning_text.delta'],
    ['response.custom_tool_call_input.delta'],
    ['response.audio.transcript.delta'],
    ['response.some_new_text.delta'],
  ])('counts the text of %s', (type) => {
    expect(tallyOf({ type, delta: 'Hello' }).characters).toBe(5)
    expect(tallyOf({ type, delta: '😀é' }).characters).toBe(2)
    expect(tallyOf({ type, delta: { text: 'x' } }).characters).toBe(0)
  })

  test.each([['response.audio.delta'], ['response.output_audio.delta']])('counts no sound: %s', (type) => {
    expect(tallyOf({ type, delta: 'UklGRiQAAABXQVZF' }).characters).toBe(0)
  })

  test('counts nothing again that it repeats when done', () => {
    expect(
      tallyOf(
        { type: 'response.output_text.delta', delta: 'Hello' },
        { type: 'response.output_text.done', text: 'Hello' },
        { type: 'response.content_part.done', part: { type: 'output_text', text: 'Hello' } },
        { type: 'response.output_item.done', item: { type: 'message', content: [{ type: 'output_text', text: 'Hello' }] } },
        {
          type: 'response.completed',
          response: { ...RESPONSE, output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hello' }] }] },
        },
      ).characters,
    ).toBe(5)
  })

  test.each([['response.completed'], ['response.incomplete'], ['response.failed']])('tells usage with %s', (type) => {
    expect(tallyOf({ type, response: { ...RESPONSE, usage: USAGE } })).toMatchObject({ promptTokens: 11, completionTokens: 31 })
  })

  test('tells no usage before its end', () => {
    expect(tallyOf({ type: 'response.in_progress', response: { ...RESPONSE, usage: { ...USAGE, output_tokens: 0 } } })).toEqual({
      ...newTally(),
      model: 'gpt-4.1',
    })
  })

  test.each([
    ['response.created', 'content'],
    ['response.output_text.delta', 'content'],
    ['response.output_text.done', 'content'],
    ['response.some_new_thing', 'content'],
    ['response.completed', 'end'],
    ['response.incomplete', 'end'],
    ['response.failed', 'error'],
    ['error', 'error'],
  ])('says with %s: %s', (type, meaning) => {
    expect(new ResponsesDialect().read({ type, response: RESPONSE }, newTally())).toBe(meaning)
  })

  test.each([
    [{}],
    [{ type: 5 }],
    [{ type: 'response.completed' }],
    [{ type: 'response.completed', response: [] }],
    [{ type: 'response.output_text.delta' }],
  ])('may bring nonsense: %j', (event) => {
    expect(tallyOf(event)).toEqual(newTally())
  })
})

describe('a Responses stream that is cut', () => {
  const events = [
    { type: 'response.created', sequence_number: 0, response: RESPONSE },
    { type: 'response.in_progress', sequence_number: 1, response: { ...RESPONSE, model: 'gpt-4.1-2025-04-14' } },
    { type: 'response.output_text.delta', sequence_number: 2, delta: 'Hello' },
  ]

  test('ends as incomplete, with its own response and usage', () => {
    const [name, data] = closing(events)
    expect(name).toBe('response.incomplete')
    expect(data).toMatchObject({
      type: 'response.incomplete',
      response: {
        ...RESPONSE,
        model: 'gpt-4.1-2025-04-14',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        usage: USAGE,
      },
    })
  })

  test('counts its events on, and does not begin to where it never did', () => {
    expect((closing(events)[1] as { sequence_number: number }).sequence_number).toBeGreaterThan(1)
    expect(closing([{ type: 'response.created', response: RESPONSE }])[1]).not.toHaveProperty('sequence_number')
  })

  test('keeps its number where an event has none', () => {
    const [, data] = closing([...events, { type: 'response.output_text.delta', delta: 'x' }])
    expect((data as { sequence_number: number }).sequence_number).toBeGreaterThan(1)
  })

  test('tells no usage where none is wanted', () => {
    expect(closing(events, 'graceful_close', false)[1]).toHaveProperty('response.usage', null)
    expect(closing([], 'graceful_close', false)[1]).toEqual({
      type: 'response.incomplete',
      response: { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    })
  })

  test('ends with an error event where that is wanted', () => {
    const error = { type: 'error', code: 'completion_tokens_exceeded', message: 'max completion tokens exceeded', param: null }
    const [name, data] = closing(events, 'error_chunk')
    expect(name).toBe('error')
    expect(data).toMatchObject({ ...error, usage: USAGE })
    expect(closing([], 'error_chunk', false)).toEqual(['error', error])
  })
})
