import { afterEach, describe, expect, test, vi } from 'vitest'
import { bytesOf } from '../../../test/support/llm/bytes-of.ts'
import { sse } from '../../../test/support/llm/llm-streams.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { StreamFilter, type StreamRule } from '../stream-filter.ts'
import { EventTemplate } from './event-template.ts'

const RULE: StreamRule = {
  policy: { isShadow: false },
  llm: {
    withoutUsage: 'estimate',
    maxCompletionTokens: undefined,
    streaming: { enabled: true, enforceMidStream: true, bufferTokens: 100, onLimitExceeded: 'graceful_close', includePartialUsage: true },
  },
}
const WORDS = ['The', ' filter', ' "reads"', '\n', ' every', ' café', ' 😀', ' event', '.', '']

/** Far more events than are parsed to learn their shape. */
const texts = Array.from({ length: sized(40, 100) }, (_, i) => WORDS[i % WORDS.length]!)

afterEach(() => vi.restoreAllMocks())

interface Result {
  readonly out: string
  readonly characters: number
  readonly parsed: number
}

function filtered(chunks: readonly string[], maxTemplates?: number): Result {
  const options = { rules: [RULE], promptEstimate: 7, isActivated: true, ...(maxTemplates === undefined ? {} : { maxTemplates }) }
  const filter = new StreamFilter(options)
  let parsed = 0
  // A spy that keeps what it is called with takes longer than all else here.
  const { parse } = JSON
  JSON.parse = (...args) => {
    parsed++
    return parse(...args)
  }
  try {
    const out = chunks.map((chunk) => bytesOf(filter.push(Buffer.from(chunk))).toString()).join('')
    return { out, characters: filter.counts.completion, parsed }
  } finally {
    JSON.parse = parse
  }
}

/** How many events are parsed, learning included; what comes out is what a filter without templates gives. */
function parsedOf(chunks: readonly string[]): number {
  const { parsed, ...rest } = filtered(chunks)
  const { parsed: _, ...expected } = filtered(chunks, 0)
  expect(rest).toEqual(expected)
  return parsed
}

const chat = (delta: object, rest: object = {}, index = 0): string =>
  sse({ id: 'chatcmpl-1', created: 1, model: 'm', choices: [{ index, delta, logprobs: null, finish_reason: null }], ...rest })
const START = ': start\n\n'

describe('events of a known shape are not parsed', () => {
  const responses = (delta: string, i: number): string =>
    sse(
      { type: 'response.output_text.delta', sequence_number: i, item_id: 'm', delta, logprobs: [], obfuscation: 'x'.repeat(i % 9) },
      'response.output_text.delta',
    )
  const anthropic = (delta: object): string => sse({ type: 'content_block_delta', index: 0, delta }, 'content_block_delta')

  test.each<[string, (text: string, i: number) => string]>([
    ['chat', (content) => chat({ content })],
    ['chat with usage of null', (content) => chat({ content }, { usage: null })],
    ['chat with padding', (content, i) => chat({ content }, { usage: null, obfuscation: 'x'.repeat(i % 9) })],
    ['chat with reasoning', (reasoning_content) => chat({ content: null, reasoning_content })],
    ['chat with arguments', (text) => chat({ tool_calls: [{ index: 0, function: { arguments: text } }] })],
    ['completions', (text) => sse({ id: 'cmpl-1', choices: [{ text, index: 0, finish_reason: null }] })],
    ['Responses', responses],
    ['Anthropic text', (text) => anthropic({ type: 'text_delta', text })],
    ['Anthropic thinking', (thinking) => anthropic({ type: 'thinking_delta', thinking })],
    ['Anthropic arguments', (partial_json) => anthropic({ type: 'input_json_delta', partial_json })],
    ['CRLF', (content) => chat({ content }).replaceAll('\n', '\r\n')],
    ['CR', (content) => chat({ content }).replaceAll('\n', '\r')],
    ['white space in the JSON', (content) => chat({ content }).replaceAll(',"', ', "').replaceAll('":', '": ')],
    ['escapes in place of all beyond ASCII', (content) => chat({ content }).replace(/[^\n -~]/g, escaped)],
  ])('%s', (_, event) => {
    const events = texts.map(event)
    expect(parsedOf([START, ...events])).toBeLessThan(8)
    expect(parsedOf([START + events.join('')])).toBeLessThan(8)
  })

  test('though they come in pieces', () => {
    const stream = START + texts.map((content) => chat({ content })).join('')
    for (const size of [1, 7, 100, 1000]) expect(parsedOf(stream.match(new RegExp(`[^]{1,${size}}`, 'g'))!)).toBeLessThan(8)
  })

  test('though choices come in turns', () => {
    expect(parsedOf([START, ...texts.map((content, i) => chat({ content }, {}, i % 4))])).toBeLessThan(20)
  })

  test('when the shape changes, from the second event on', () => {
    const changing = texts.map((content, i) => chat({ content }, { created: Math.floor(i / 20) }))
    expect(parsedOf([START, ...changing])).toBeLessThan(25)
  })
})

describe('learning', () => {
  test('is given up where no shape comes twice', () => {
    const count = sized(500, 1000)
    const events = Array.from({ length: count }, (_, i) => chat({ content: 'text' }, { created: i }))
    expect(parsedOf([START, ...events])).toBeLessThan(count * 1.05)
  })

  test('and shapes that come no more are not tried for ever', () => {
    const fits = vi.spyOn(EventTemplate.prototype, 'fits')
    const count = sized(500, 2000)
    filtered([START, ...Array.from({ length: count }, (_, i) => chat({ content: 'text' }, { created: i }))])
    expect(fits.mock.calls.length).toBeLessThan(count)
  })

  test('starts again where the stream settles down', () => {
    const odd = Array.from({ length: 200 }, (_, i) => chat({ content: 'text' }, { created: i }))
    const regular = Array.from({ length: 500 }, () => chat({ content: 'text' }))
    expect(parsedOf([START, ...odd, ...regular])).toBeLessThan(400)
  })

  test('does not happen where nothing is generated, or the event is large or has many values', () => {
    const pings = texts.map(() => sse({ type: 'ping' }, 'ping'))
    expect(parsedOf(pings)).toBe(pings.length)
    const large = texts.map((content) => chat({ content }, { extra: 'x'.repeat(3000) }))
    expect(parsedOf(large)).toBe(large.length)
    const crowded = texts.map((content) => chat({ content }, { extra: Array.from({ length: 200 }, () => ({})) }))
    expect(parsedOf(crowded)).toBe(crowded.length)
  })
})

test.each([
  ['a name that comes twice, of which the last counts', '{"content":"TEXT","content":"xy"}', '{"content":"xy","content":"TEXT"}'],
  ['a name that is written with an escape', '{"content":"TEXT","c\\u006fntent":"xy"}', '{"c\\u006fntent":"xy","content":"TEXT"}'],
  ['a name of the prototype', '{"__proto__":{"content":"TEXT"}}', '{"content":"TEXT","__proto__":{"content":"xy"}}'],
  ['text that is not counted beside text that is', '{"reasoning":"TEXT","reasoning_content":"xy"}', '{"input":"TEXT","content":"TEXT"}'],
  ['names that look like numbers, which come first', '{"content":"TEXT","1":{"content":"xy"}}', '{"1":{"content":"TEXT"},"content":"xy"}'],
])('%s is counted as the parser does', (_, ...deltas) => {
  for (const delta of deltas) {
    const event = (text: string): string => sse(`{"choices":[{"index":0,"delta":${delta.replaceAll('TEXT', text)}}]}`)
    parsedOf([START, ...texts.map((__, i) => event('x'.repeat(i % 30)))])
  }
})

test.each([
  ['nested', '"sequence_number":NUMBER,"x":{"sequence_number":3}'],
  ['nested and alone', '"x":{"sequence_number":NUMBER}'],
  ['repeated', '"sequence_number":NUMBER,"sequence_number":3'],
  ['written with an escape', '"sequence_number":NUMBER,"sequence_numbe\\u0072":3'],
])('a sequence number that is %s is remembered as the parser does', (_, fields) => {
  const event = (number: number): string =>
    sse(`{"type":"response.output_text.delta","delta":"text",${fields.replace('NUMBER', String(number))}}`)
  const filters = [undefined, 0].map(
    (maxTemplates) =>
      new StreamFilter({ rules: [RULE], promptEstimate: 7, isActivated: true, ...(maxTemplates === 0 ? { maxTemplates } : {}) }),
  )
  for (let i = 0; i < 10; i++) {
    const [byShape, parsing] = filters.map((filter) => {
      filter.push(Buffer.from(event(i)))
      return filter.close().toString()
    })
    expect(byShape).toBe(parsing)
  }
})

test.each([
  ['numbers are too long', `"x":${'1'.repeat(300)}`],
  ['values are nested too deeply', `"x":${'['.repeat(1003)}${']'.repeat(1003)}`],
])('a large event is not parsed, and counted by its size, where its %s', (_, fields) => {
  const event = (text: string): string => sse(`{"choices":[{"text":"${text}",${fields}}]}`)
  const events = ['a', 'b', 'large'.repeat(20_000), 'c'].map(event)
  parsedOf([START, ...events])
  parsedOf((START + events.join('')).match(/.{1,1000}/gs)!)
})

test.each(['007', '01', '1.0', '1e0', '-1', '', '1 2', '12345678901234567'])(
  '%j in place of a sequence number is read by the parser',
  (number) => {
    const event = (text: string): string => sse(`{"type":"response.output_text.delta","sequence_number":${text},"delta":"some text"}`)
    parsedOf([START, ...['1', '2', '3', number, '4', number, number].map(event)])
  },
)

test('a byte order mark is one only at the start of the stream', () => {
  const events = texts.map((content) => chat({ content }))
  parsedOf(events.map((event) => `\ufeff${event}`))
  parsedOf(events.map((event, i) => (i % 10 === 0 ? `\ufeff${event}` : event)))
})

test('text of which more than the number of characters matters is parsed each time', () => {
  const event = (text: string): string =>
    sse({ type: 'content_block_start', index: 0, content_block: { type: 'tool_use', input: { text } } })
  expect(parsedOf(texts.map(event))).toBe(texts.length)
})

function escaped(text: string): string {
  return Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
}
