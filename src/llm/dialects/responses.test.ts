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

describe('the output of a stream that is cut', () => {
  const added = (type: string, at = 0, fields: Event = {}): Event => ({
    type: 'response.output_item.added',
    output_index: at,
    item: { id: `item_${at}`, type, status: 'in_progress', ...fields },
  })
  const part = (type = 'output_text', at = 0, content = 0): Event => ({
    type: 'response.content_part.added',
    output_index: at,
    content_index: content,
    item_id: `item_${at}`,
    part: type === 'refusal' ? { type, refusal: '' } : { type, text: '', annotations: [] },
  })
  const delta = (text: string, at = 0, content = 0, type = 'response.output_text.delta'): Event => ({
    type,
    output_index: at,
    content_index: content,
    item_id: `item_${at}`,
    delta: text,
  })
  function ended(...events: readonly Event[]): {
    readonly types: readonly string[]
    readonly all: readonly Event[]
    readonly output: unknown
  } {
    const dialect = new ResponsesDialect()
    const numbered = [{ type: 'response.created', response: RESPONSE }, ...events].map((event, i) => ({ ...event, sequence_number: i }))
    for (const event of numbered) dialect.remember(event)
    const all = parseSse(dialect.closing('graceful_close', COUNTS, true)).map(({ data }) => JSON.parse(data) as Event)
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual(all.map((_, i) => numbered.length + i))
    return { types: all.map(({ type }) => String(type)), all, output: (all.at(-1)!['response'] as Event)['output'] }
  }
  const LAST = 'response.incomplete'
  const message = (text: string, at = 0): Event => ({
    id: `item_${at}`,
    type: 'message',
    status: 'incomplete',
    content: [{ type: 'output_text', text, annotations: [] }],
  })

  test('has the text of an open message, and every part and item ends', () => {
    const { types, all, output } = ended(added('message'), part(), delta('Hel'), delta('lo'))
    expect(types).toEqual(['response.output_text.done', 'response.content_part.done', 'response.output_item.done', LAST])
    expect(all[0]).toMatchObject({ item_id: 'item_0', output_index: 0, content_index: 0, text: 'Hello', logprobs: [] })
    expect(all[1]).toMatchObject({ part: { type: 'output_text', text: 'Hello' } })
    expect(all[2]).toMatchObject({ item: message('Hello') })
    expect(output).toEqual([message('Hello')])
  })

  test('keeps what was whole before, and ends nothing twice', () => {
    const whole = { id: 'item_0', type: 'function_call', status: 'completed', arguments: '{"a":1}' }
    const done = { type: 'response.output_item.done', output_index: 0, item: whole }
    const { types, output } = ended(added('function_call'), done, added('message', 1), part('output_text', 1), delta('x', 1))
    expect(types).toHaveLength(4)
    expect(output).toEqual([whole, message('x', 1)])
  })

  test('ends a part that was done once', () => {
    const last = { type: 'response.content_part.done', output_index: 0, content_index: 0, part: { type: 'output_text', text: 'a' } }
    const { types, output } = ended(
      added('message'),
      part(),
      delta('a'),
      last,
      part('refusal', 0, 1),
      delta('no', 0, 1, 'response.refusal.delta'),
    )
    expect(types).toEqual(['response.refusal.done', 'response.content_part.done', 'response.output_item.done', LAST])
    expect(output).toMatchObject([{ content: [{ text: 'a' }, { type: 'refusal', refusal: 'no' }] }])
  })

  test('leaves out a call of a tool that is not complete', () => {
    const { types, output } = ended(
      added('function_call', 0, { arguments: '' }),
      delta('{"a', 0, 0, 'response.function_call_arguments.delta'),
    )
    expect([types, output]).toEqual([[LAST], []])
  })

  test('ends reasoning, which has no text of ours', () => {
    expect(ended(added('reasoning', 0, { summary: [] })).types).toEqual(['response.output_item.done', LAST])
  })

  test.each([
    ['one text', [delta('x'.repeat(200_000))]],
    ['many small texts', Array.from({ length: 40_000 }, () => delta('abcd'))],
    ['many items', Array.from({ length: 1000 }, (_, i) => added('message', i))],
    ['a large item', [added('message', 1, { x: 'y'.repeat(200_000) })]],
  ])('is not kept beyond a bound: %s', (_what, events) => {
    const { types, output } = ended(added('message'), part(), ...events)
    expect([types, output]).toEqual([[LAST], []])
  })

  test.each([
    {},
    { output_index: -1 },
    { output_index: 'a' },
    { output_index: 0, item: [] },
    { output_index: 7, content_index: 9, delta: 'x' },
  ])('takes no harm from odd events: %j', (odd) => {
    const types = ['output_item.added', 'output_item.done', 'content_part.added', 'content_part.done', 'output_text.delta']
    expect(ended(...types.map((type) => ({ type: `response.${type}`, ...odd }))).types).toEqual([LAST])
  })
})
