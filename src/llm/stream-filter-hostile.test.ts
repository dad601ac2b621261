import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { bytesOf } from '../../test/support/llm/bytes-of.ts'
import { readAnswer, readLlmRequest } from '../../test/support/llm/json-readers.ts'
import { chatChunk, parseSse, sse } from '../../test/support/llm/llm-streams.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { PlanRule } from '../policy/plan.ts'
import { StreamFilter } from './stream-filter.ts'
import type { StreamFilterOptions } from './stream-rules.ts'
import { countTokens, newTally, readUsage } from './usage.ts'

const LONG = 'x'.repeat(100)

function newFilter(max: number | undefined = 5, options: Partial<StreamFilterOptions<PlanRule>> = {}): StreamFilter<PlanRule> {
  const config = { tokens_per_minute: 1000, ...(max === undefined ? {} : { max_completion_tokens: max }), streaming: { buffer_tokens: 1 } }
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [llmRule('r', [], config)] }))))
  if (!('bundle' in parsed)) throw new Error('bad bundle')
  return new StreamFilter({ rules: compileBundle(parsed.bundle).policies[0]!.rules, promptEstimate: 3, isActivated: true, ...options })
}

function push(filter: StreamFilter<PlanRule>, text: string): string {
  return bytesOf(filter.push(Buffer.from(text))).toString()
}

// biome-ignore lint/suspicious/noExplicitAny: a closing event of any dialect
function closingOf(out: string): any {
  return JSON.parse(parseSse(out).find(({ data }) => data !== '[DONE]')!.data)
}

describe('text behind white space', () => {
  test.each([
    ['two spaces', `data:  {"choices":[{"index":0,"delta":{"content":"${LONG}"}}]}\n\n`],
    ['a tab', `data:\t{"choices":[{"index":0,"delta":{"content":"${LONG}"}}]}\n\n`],
    ['an empty data line', `data:\ndata: {"choices":[{"index":0,"delta":{"content":"${LONG}"}}]}\n\n`],
  ])('is counted: %s', (_, event) => {
    const filter = newFilter(1000)
    push(filter, event)
    expect(filter.counts.output).toBe(25)
  })
})

describe('a cut describes what the client has seen, not the event that was withheld', () => {
  test('a choice whose finish_reason was in the withheld event is still open', () => {
    const filter = newFilter()
    push(filter, chatChunk({ content: 'x' }))
    expect(closingOf(push(filter, chatChunk({ content: LONG }, 'stop'))).choices).toEqual([
      { index: 0, delta: {}, finish_reason: 'length' },
    ])
  })
  test('the same with two choices', () => {
    const filter = newFilter()
    push(filter, chatChunk({ content: 'x' }, null, 0) + chatChunk({ content: 'x' }, null, 1))
    const { choices } = closingOf(push(filter, chatChunk({ content: LONG }, 'stop', 0)))
    expect(choices.map(({ index }: { index: number }) => index)).toEqual([0, 1])
  })
  test('a block that the client never saw start is not stopped', () => {
    const filter = newFilter()
    push(filter, sse({ type: 'message_start', message: {} }, 'message_start'))
    const out = push(
      filter,
      sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: LONG } }, 'content_block_start'),
    )
    expect(parseSse(out).map(({ event }) => event)).toEqual(['message_delta', 'message_stop'])
  })
  test('sequence numbers have no hole', () => {
    const filter = newFilter()
    push(filter, sse({ type: 'response.created', sequence_number: 0, response: {} }))
    expect(closingOf(push(filter, sse({ type: 'response.output_text.delta', sequence_number: 1, delta: LONG }))).sequence_number).toBe(1)
  })
})

describe('nesting beyond all reason does not throw', () => {
  const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`
  test('in a whole answer', () => {
    expect(() => readAnswer(`{"type":"message","content":[{"type":"tool_use","input":${deep}}]}`)).not.toThrow()
  })
  test('in a block that starts', () => {
    expect(() => push(newFilter(), sse(`{"type":"content_block_start","index":0,"content_block":{"input":${deep}}}`))).not.toThrow()
  })
  test('in a field that the closing repeats', () => {
    expect(() => push(newFilter(), sse(`{"id":${deep},"choices":[{"index":0,"delta":{"content":"${LONG}"}}]}`))).not.toThrow()
  })
  test('in a response that the closing repeats', () => {
    const filter = newFilter()
    push(filter, sse(`{"type":"response.created","response":${deep}}`))
    expect(() => push(filter, sse({ type: 'response.output_text.delta', delta: LONG }))).not.toThrow()
  })
})

test('a Responses stream that is one error event has failed', () => {
  const filter = newFilter()
  push(filter, sse({ type: 'error', code: 'server_error', message: 'x', param: null, sequence_number: 0 }, 'error'))
  expect(filter.hasFailed).toBe(true)
})

test('an error of null is no error', () => {
  const filter = newFilter()
  push(filter, sse({ error: null, status: 'warming up' }))
  expect(filter.hasFailed).toBe(false)
})

test('an error that is a text is one, in a chat stream too', () => {
  const filter = newFilter()
  push(filter, chatChunk({ role: 'assistant' }) + sse({ error: 'overloaded' }))
  expect(filter.hasFailed).toBe(true)
})

test('the closing does not stick to the last line of an oversized event that never ended', () => {
  const filter = newFilter(5, { maxEventBytes: 40 })
  const out = push(filter, `data: ${LONG}`) + bytesOf(filter.end()).toString()
  expect(parseSse(out).map(({ data }) => data)).toEqual([LONG, expect.stringContaining('"length"'), '[DONE]'])
})

describe('the closing repeats what was seen', () => {
  test('though there is no id', () => {
    const chunk = { object: 'chat.completion.chunk', created: 7, model: 'm', choices: [{ index: 0, delta: { content: LONG } }] }
    expect(closingOf(push(newFilter(), sse(chunk)))).toMatchObject({ object: 'chat.completion.chunk', created: 7, model: 'm' })
  })
  test("though Azure's first chunk has empty ones", () => {
    const filter = newFilter()
    push(filter, sse({ choices: [], created: 0, id: '', model: '', object: '', prompt_filter_results: [] }))
    expect(closingOf(push(filter, chatChunk({ content: LONG })))).toMatchObject({
      object: 'chat.completion.chunk',
      model: 'gpt-4o-2024-08-06',
    })
  })
})

test('an early count of the provider does not stand for text that came after it', () => {
  const filter = newFilter()
  push(
    filter,
    sse({ choices: [{ index: 0, delta: { role: 'assistant' } }], usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 } }),
  )
  expect(closingOf(push(filter, chatChunk({ content: LONG }))).usage.completion_tokens).toBe(25)
})

test('a ping does not make a chat stream an Anthropic one', () => {
  const filter = newFilter(1000)
  push(filter, sse({ type: 'ping' }) + chatChunk({ content: LONG }))
  expect(filter.counts.output).toBe(25)
})

test('a total and a completion leave the rest for the prompt', () => {
  const tally = newTally()
  readUsage({ completion_tokens: 20, total_tokens: 30 }, tally)
  expect(countTokens(tally, 999)).toMatchObject({ input: 10, output: 20 })
})

describe('a prompt', () => {
  const tokens = (body: object): number => readLlmRequest(JSON.stringify(body)).promptTokens
  test('counts the text parts of a function_call_output', () => {
    expect(tokens({ input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: LONG }] }] })).toBe(25)
  })
  test('counts a document of plain text', () => {
    const source = { type: 'text', media_type: 'text/plain', data: LONG }
    expect(tokens({ messages: [{ role: 'user', content: [{ type: 'document', source }] }] })).toBe(25)
  })
  test('counts reasoning summaries among input items', () => {
    expect(tokens({ input: [{ type: 'reasoning', summary: [{ type: 'summary_text', text: LONG }] }] })).toBe(25)
  })
})

test('a bound beyond 2^53 is the largest that can be counted exactly', () => {
  expect(readLlmRequest('{"prompt":"x","max_tokens":10000000000000000000}').requestedTokens).toBe(Number.MAX_SAFE_INTEGER)
})

describe('CRLF between two chunks at an oversized event', () => {
  test('gives the same bytes where it cuts', () => {
    const text = `data: ${LONG}\r\n\r\n`
    const filter = newFilter(5, { maxEventBytes: 40 })
    expect(push(filter, text.slice(0, -1)) + push(filter, '\n')).toBe(push(newFilter(5, { maxEventBytes: 40 }), text))
  })
  test('gives the same count at the very size', () => {
    const text = 'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\r\n\r\n'
    const [one, two] = [newFilter(500, { maxEventBytes: text.length - 1 }), newFilter(500, { maxEventBytes: text.length - 1 })]
    push(one, text)
    push(two, text.slice(0, -1))
    push(two, '\n')
    expect(two.counts).toEqual(one.counts)
  })
})

test('[DONE] may have white space after it', () => {
  const filter = newFilter()
  push(filter, 'data: [DONE] \n\n')
  expect(filter.hasEnded).toBe(true)
})

describe('an event with more values than may be parsed at once', () => {
  const hostile = sse(`{"choices":[${'{},'.repeat(200_000)}{}]}`)

  test('is scanned, and costs what it says', () => {
    const filter = newFilter(1e9)
    expect(push(filter, hostile)).toBe(hostile)
    expect(filter.counts.output).toBe(0)
    push(filter, sse(`{"choices":[${'{"delta":{"content":"x"}},'.repeat(30_000)}{}]}`))
    expect(filter.counts.output).toBe(7500)
  })

  test('is counted by its size if it is no JSON', () => {
    const filter = newFilter(1e9)
    const damaged = hostile.replace(/\]\}\n\n$/, ']\n\n')
    expect(push(filter, damaged)).toBe(damaged)
    expect(filter.counts.output).toBe(Math.ceil(damaged.length / 4))
  })

  test('may be the last before a cut', () => {
    const text = sse(`{"choices":[${'{},'.repeat(200_000)}{"delta":{"content":"${'x'.repeat(50)}"}}]}`)
    const out = push(newFilter(5), text)
    expect(out.startsWith(text)).toBe(true)
    expect(parseSse(out).at(-1)!.data).toBe('[DONE]')
  })

  test('is not one with as many log probabilities as fit', () => {
    const probability = { token: ' a', bytes: [32, 97], logprob: -0.25, top_logprobs: [{ token: ' b', bytes: [32, 98], logprob: -3.5 }] }
    const logprobs = Array(9000).fill(probability)
    const response = { output: [{ content: [{ text: 'x', logprobs }] }], usage: { input_tokens: 7, output_tokens: 8 } }
    const event = sse({ type: 'response.completed', response })
    expect(event.length).toBeGreaterThan(900_000)
    const filter = newFilter()
    push(filter, event)
    expect(filter.counts).toMatchObject({ input: 7, output: 8 })
  })
})

describe('what belongs to no known API', () => {
  const PROSE = 'All work and no play makes Jack a dull boy. '.repeat(100)
  const COUNT = { prompt_tokens: 20, completion_tokens: 800 }
  const ZEROS = { prompt_tokens: 0, completion_tokens: 0 }
  /** In tokens, without its numbers. */
  const SIZE_OF_ZEROS = (sse({ usage: ZEROS }).length - 2 * ':0'.length) / 4
  const chat = chatChunk({ content: 'abcd' })
  const unknown = sse({ answer: PROSE })
  const mebibyte = 'All work and no play '.repeat(60_000)
  /** So much of it costs nothing beside text. */
  const FREE = 1024
  const bytes = (...events: string[]): number => Math.ceil((events.join('').length + 4 - FREE) / 4)

  test.each<[string, string[], number]>([
    ['before the text', [unknown, unknown, chat], bytes(unknown, unknown)],
    ['behind the text', [chat, unknown], bytes(unknown)],
    ['in a large event behind the text', [chat, sse({ answer: mebibyte })], Math.ceil((sse({ answer: mebibyte }).length + 4) / 4)],
    [
      'in a large event in a choice',
      [chat, sse({ choices: [{ delta: { answer: mebibyte } }] })],
      Math.ceil((sse({ choices: [{ delta: { answer: mebibyte } }] }).length + 4 - 64 * 1024) / 4),
    ],
    [
      'in small events of choices',
      [chat, ...Array<string>(100).fill(sse({ choices: [{ delta: { answer: PROSE } }] }))],
      Math.ceil((100 * sse({ choices: [{ delta: { answer: PROSE } }] }).length + 4 - 64 * 1024) / 4),
    ],
    ['that is no JSON', [chat, `data: ${PROSE}\n\n`], bytes(`data: ${PROSE}\n\n`)],
    ['and is counted by the provider behind it', [unknown, chat, unknown, sse({ choices: [], usage: COUNT })], 800],
    ['and is counted in an event of its own API', [unknown, sse({ type: 'speech.audio.done', usage: COUNT })], 800],
    ['and is counted in a large event', [unknown, sse({ type: 'image.completed', picture: mebibyte, usage: COUNT })], 800],
    ['behind a count of zero', [sse({ usage: ZEROS }), unknown, unknown], Math.ceil(SIZE_OF_ZEROS + (2 * unknown.length) / 4)],
    ['pings', [chat, ...Array<string>(200).fill(sse({ type: 'ping' }))], 1],
    [
      'what Responses repeat',
      [sse({ type: 'response.output_item.done', item: PROSE }), sse({ type: 'response.output_item.done', item: mebibyte })],
      0,
    ],
    [
      'in pieces of Responses of a type that is not known',
      Array<string>(100).fill(sse({ type: 'response.new_thing.delta', delta: { answer: PROSE } })),
      (100 * sse({ type: 'response.new_thing.delta', delta: { answer: PROSE } }).length) / 4,
    ],
    ['beside Responses', [sse({ type: 'response.created' }), unknown, unknown], Math.ceil((2 * unknown.length) / 4)],
    [
      'without any count in its usage',
      Array<string>(2).fill(sse({ answer: PROSE, usage: {} })),
      Math.ceil(sse({ answer: PROSE, usage: {} }).length / 2),
    ],
    [
      'in chunks without choices',
      [chat, ...Array<string>(100).fill(sse({ choices: [], answer: PROSE }))],
      Math.ceil((100 * sse({ choices: [], answer: PROSE }).length + 4 - 64 * 1024) / 4),
    ],
    ['and has a count of zero behind text', [chatChunk({ content: PROSE }), sse({ type: 'x', usage: ZEROS })], PROSE.length / 4],
  ])('costs its size beside what is known: %s', (_, events, output) => {
    for (const pieceBytes of [events.join('').length, 100_000]) {
      const filter = newFilter(1e9)
      const text = events.join('')
      for (let at = 0; at < text.length; at += pieceBytes) push(filter, text.slice(at, at + pieceBytes))
      expect(filter.charged.output).toBe(output)
    }
  })

  test.each<[string, string[], boolean]>([
    ['alone', [], true],
    ['behind an event that says that it began', [sse({ type: 'start', id: 1 })], true],
    ['behind the first events of a choice', [chatChunk({ role: 'assistant' })], true],
    ['behind much of an API that is not known', [unknown], false],
    ['behind other errors with much else', Array<string>(20).fill(sse({ error: { message: 'overloaded' }, answer: PROSE })), false],
    [
      'behind many pieces of Responses of a type that is not known',
      Array<string>(100).fill(sse({ type: 'response.new_thing.delta', delta: { answer: PROSE } })),
      false,
    ],
    ['behind a choice with much that is not known', [sse({ choices: [{ delta: { answer: mebibyte } }] })], false],
  ])('is not free where an error follows it: %s', (_, events, hasFailed) => {
    const filter = newFilter(1e9)
    push(filter, [...events, sse({ error: { message: 'overloaded' } })].join(''))
    expect(filter.hasFailed).toBe(hasFailed)
  })
})
