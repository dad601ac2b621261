import { describe, expect, test } from 'vitest'
import { bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { bytesOf } from '../../test/support/llm/bytes-of.ts'
import {
  anthropicStream,
  chatChunk,
  chatStream,
  countsOf,
  FAILED_STREAMS,
  parseSse,
  RECORDED_STREAMS,
  responsesStream,
  sse,
  withLineEnds,
} from '../../test/support/llm/llm-streams.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { PlanRule } from '../policy/plan.ts'
import { MAX_EVENT_BYTES, StreamFilter } from './stream-filter.ts'
import type { StreamFilterOptions } from './stream-rules.ts'

const PROMPT_ESTIMATE = 10
/** A text of one token. */
const TOKEN = 'word'

interface Settings {
  readonly id?: string
  readonly mode?: 'enforce' | 'shadow'
  /** Of max_completion_tokens; undefined: no bound. */
  readonly max?: number
  readonly buffer?: number
  readonly enforces?: boolean
  readonly close?: 'graceful_close' | 'error_chunk'
  readonly usage?: boolean
}

function policyOf({
  id = 'p',
  mode = 'enforce',
  max,
  buffer = 1,
  enforces = true,
  close = 'graceful_close',
  usage = false,
}: Settings): PolicyText {
  const streaming = { buffer_tokens: buffer, enforce_mid_stream: enforces, on_limit_exceeded: close, include_partial_usage: usage }
  const bound = max === undefined ? {} : { max_completion_tokens: max }
  return policy(id, { mode, rules: [llmRule('tokens', [], { tokens_per_minute: 1000, ...bound, streaming })] })
}

function rulesOf(...policies: readonly PolicyText[]): PlanRule[] {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!('bundle' in parsed)) throw new Error(JSON.stringify(parsed))
  return compileBundle(parsed.bundle).policies.flatMap(({ rules }) => rules)
}

function newFilter(settings: Settings | readonly Settings[], options: Partial<StreamFilterOptions<PlanRule>> = {}): StreamFilter<PlanRule> {
  const rules = rulesOf(...[settings].flat().map((each, i) => policyOf({ id: `p${i}`, ...each })))
  return new StreamFilter({ rules, promptEstimate: PROMPT_ESTIMATE, isActivated: true, ...options })
}

function passed(filter: StreamFilter<PlanRule>, ...chunks: readonly string[]): string {
  return Buffer.concat([...chunks.map((chunk) => bytesOf(filter.push(Buffer.from(chunk)))), bytesOf(filter.end())]).toString()
}

/** What a chat client looks at. */
interface Payload {
  readonly usage?: Readonly<Record<string, number>>
  readonly choices?: readonly { readonly index?: number; readonly delta?: { readonly content?: string } }[]
}

/** The JSON of each event, [DONE] left out. */
function payloads(text: string): Payload[] {
  return parseSse(text)
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data))
}

/** What a chat client reads. */
function contentOf(text: string): string {
  return payloads(text)
    .flatMap(({ choices = [] }) => choices)
    .map(({ delta }) => delta?.content ?? '')
    .join('')
}

const WITH_USAGE = { usage: true } as const

describe.each(RECORDED_STREAMS)('a recorded stream: $name', (recorded) => {
  const { text, characters, completion } = recorded

  test('costs what the provider says, else what its text is worth', () => {
    const filter = newFilter({})
    passed(filter, text)
    expect(filter.counts).toEqual(countsOf(recorded, PROMPT_ESTIMATE))
    expect(filter.estimatedCompletionTokens).toBe(Math.ceil(characters / 4))
    expect(filter.hasProviderCount).toBe(completion !== undefined)
    expect(filter.hasFailed).toBe(false)
  })

  test('passes byte for byte where no usage is added and no bound is exceeded', () => {
    for (const lineEnd of ['\n', '\r\n', '\r'] as const) {
      const stream = withLineEnds(text, lineEnd)
      expect(passed(newFilter({ max: 1000 }), stream)).toBe(stream)
    }
  })

  test('gains usage in chat-shaped events and nothing else', () => {
    const out = payloads(passed(newFilter(WITH_USAGE), text))
    for (const [i, event] of payloads(text).entries()) {
      if (event.usage || !('choices' in event)) expect(out[i]).toEqual(event)
      else
        expect(out[i]).toEqual({
          ...event,
          usage: { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number), total_tokens: expect.any(Number) },
        })
    }
  })
})

describe('text', () => {
  test('is counted over all deltas together, not rounded up in each', () => {
    const filter = newFilter({})
    passed(filter, chatStream(Array(40).fill('a')))
    expect(filter.counts.output).toBe(10)
  })

  test('that is split inside a surrogate pair counts once', () => {
    const filter = newFilter({})
    passed(
      filter,
      ...Array(4).fill(sse('{"choices":[{"delta":{"content":"\\ud83d"}}]}') + sse('{"choices":[{"delta":{"content":"\\ude00"}}]}')),
    )
    expect(filter.counts.output).toBe(1)
  })

  test('is counted as soon as its event is complete', () => {
    const filter = newFilter({})
    const event = chatChunk({ content: TOKEN })
    expect(filter.push(Buffer.from(event.slice(0, -1)))).toHaveLength(0)
    expect(filter.counts.output).toBe(0)
    expect(bytesOf(filter.push(Buffer.from(event.slice(-1)))).toString()).toBe(event)
    expect(filter.counts.output).toBe(1)
  })

  test.each([
    ['data: not JSON\n\n'],
    ['data: {"choices":[\n\n'],
    ['data: [1]\n\n'],
    ['data: "text"\n\n'],
    ['data: null\n\n'],
    [': comment\n\n'],
    ['event: x\n\n'],
  ])('is not in %j, which passes as it is', (event) => {
    const filter = newFilter({ max: 1, usage: true })
    expect(passed(filter, event)).toBe(event)
    expect(filter.counts.output).toBe(0)
  })

  test('is counted though the data comes in several lines', () => {
    const filter = newFilter({})
    passed(filter, 'data: {"choices":[\ndata: {"delta":{"content":"abcdefgh"}}\ndata: ]}\n\n')
    expect(filter.counts.output).toBe(2)
  })

  test('is counted behind a byte order mark, and in an event that has no blank line', () => {
    const filter = newFilter({})
    passed(filter, `\ufeff${chatChunk({ content: TOKEN })}${chatChunk({ content: TOKEN }).trimEnd()}`)
    expect(filter.counts.output).toBe(2)
  })
})

describe('the end of a stream', () => {
  test.each([
    ['chat', sse('[DONE]')],
    ['chat without a space', 'data:[DONE]\r\n\r\n'],
    ['Responses', sse({ type: 'response.completed', response: {} })],
    ['Responses that are incomplete', sse({ type: 'response.incomplete', response: {} })],
    ['Anthropic', sse({ type: 'message_stop' })],
  ])('is known: %s', (_, event) => {
    const filter = newFilter({})
    filter.push(Buffer.from(': c\n\n'))
    expect(filter.hasEnded).toBe(false)
    filter.push(Buffer.from(event))
    expect(filter.hasEnded).toBe(true)
  })

  test('is not what merely says so in its text', () => {
    const filter = newFilter({})
    passed(filter, chatChunk({ content: '[DONE]' }, 'stop'), ': [DONE]\n\n', 'event: [DONE]\n\n', sse('"[DONE]"'))
    expect(filter.hasEnded).toBe(false)
  })
})

describe('usage in each event', () => {
  test('grows with what was generated so far', () => {
    const out = passed(newFilter(WITH_USAGE), chatStream([TOKEN, TOKEN, TOKEN]))
    expect(payloads(out).map(({ usage }) => Object.values(usage!))).toEqual([
      [10, 0, 10],
      [10, 1, 11],
      [10, 2, 12],
      [10, 3, 13],
      [10, 3, 13],
    ])
    expect(out.endsWith(sse('[DONE]'))).toBe(true)
  })

  test('is appended to the JSON as it was written', () => {
    const json = '{"z":1.0,"choices":[],"a":12345678901234567890,"ü":"東京"}'
    const usage = '"usage":{"prompt_tokens":10,"completion_tokens":0,"total_tokens":10}'
    expect(passed(newFilter(WITH_USAGE), `id: 7\ndata:${json}\r\n\r\n`)).toBe(`id: 7\ndata:${json.slice(0, -1)},${usage}}\r\n\r\n`)
  })

  test('takes the place of null', () => {
    const usage = '"usage":{"prompt_tokens":10,"completion_tokens":0,"total_tokens":10}'
    expect(passed(newFilter(WITH_USAGE), 'data: {"usage":null,"choices":[]}\n\n')).toBe(`data: {${usage},"choices":[]}\n\n`)
  })

  test.each(['{}', '{"prompt_tokens":1}', '{"total_tokens":0}', 'false'])('leaves a usage of %s alone', (usage) => {
    const event = sse(`{"choices":[],"usage":${usage}}`)
    expect(passed(newFilter(WITH_USAGE), event)).toBe(event)
  })

  test('repeats what the provider has said of the prompt', () => {
    const out = payloads(passed(newFilter(WITH_USAGE), sse({ choices: [], usage: { prompt_tokens: 77 } }), sse({ choices: [] })))
    expect(out[1]!.usage).toEqual({ prompt_tokens: 77, completion_tokens: 0, total_tokens: 77 })
  })

  test('is not added to an error, to [DONE], to comments or to what is no chat', () => {
    const stream = [sse({ error: { message: 'x' } }), sse({ choices: 'no list' }), sse({ a: 1 }), ': c\n\n', sse('[DONE]')].join('')
    expect(passed(newFilter(WITH_USAGE), stream)).toBe(stream)
    for (const text of [responsesStream([TOKEN]), anthropicStream([TOKEN])]) expect(passed(newFilter(WITH_USAGE), text)).toBe(text)
  })

  test('is added where any enforcing rule wants it, and not where none does', () => {
    const stream = chatStream([TOKEN])
    expect(passed(newFilter([{ usage: false }, { usage: true }]), stream)).not.toBe(stream)
    expect(passed(newFilter([{ usage: false }, { usage: false }]), stream)).toBe(stream)
    expect(passed(newFilter([{ usage: false }, { usage: true, mode: 'shadow' }]), stream)).toBe(stream)
    expect(passed(newFilter([]), stream)).toBe(stream)
  })

  test('is added where streams are only counted', () => {
    const stream = chatStream([TOKEN])
    expect(passed(newFilter({ usage: true, enforces: false }), stream)).not.toBe(stream)
  })
})

describe('a stream that exceeds its bound', () => {
  const six = chatStream(Array(6).fill(TOKEN))

  test('is cut before the event that exceeds it, whose tokens are in the closing usage', () => {
    const filter = newFilter({ max: 3, usage: true })
    const out = passed(filter, six)
    expect(contentOf(out)).toBe(TOKEN.repeat(3))
    expect(payloads(out).at(-1)!.usage).toEqual({ prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 })
    expect(filter.cut).toMatchObject({ completionTokens: 4, rule: { name: 'tokens' } })
    expect(filter.counts).toMatchObject({ input: 10, output: 4 })
  })

  test('ends once, as the stream itself would have', () => {
    const out = passed(newFilter({ max: 3 }), six)
    const chunk = (delta: object): string => chatChunk(delta)
    const head =
      '"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06"'
    expect(out).toBe(
      [
        chunk({ role: 'assistant', content: '', refusal: null }),
        ...Array(3).fill(chunk({ content: TOKEN })),
        `data: {${head},"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n`,
        'data: [DONE]\n\n',
      ].join(''),
    )
  })

  test('is not cut at the bound itself', () => {
    const filter = newFilter({ max: 6 })
    expect(passed(filter, six)).toBe(six)
    expect(filter.cut).toBeUndefined()
  })

  test('passes nothing more, whatever comes', () => {
    const filter = newFilter({ max: 3 })
    filter.push(Buffer.from(six))
    const { counts, cut } = filter
    expect(filter.push(Buffer.from(six))).toHaveLength(0)
    expect(filter.push(Buffer.from('data: half an event'))).toHaveLength(0)
    expect(filter.end()).toHaveLength(0)
    expect(filter.counts).toEqual(counts)
    expect(filter.cut).toBe(cut)
  })

  test('passes the events before the cut in the same chunk, and none that came half', () => {
    const filter = newFilter({ max: 1 })
    const out = bytesOf(
      filter.push(Buffer.from(`: c\n\n${chatChunk({ content: TOKEN })}${chatChunk({ content: TOKEN })}data: {"choi`)),
    ).toString()
    expect(out.startsWith(`: c\n\n${chatChunk({ content: TOKEN })}data: {`)).toBe(true)
    expect(out.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(out).not.toContain('data: {"choi\n')
  })

  test('is cut at its very first event where that is enough', () => {
    const out = passed(newFilter({ max: 1 }), sse({ choices: [{ delta: { content: TOKEN.repeat(9) } }] }))
    expect(out).toBe('data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n')
  })

  test('is cut in an event without a blank line too', () => {
    const out = passed(newFilter({ max: 1 }), chatChunk({ content: TOKEN }), chatChunk({ content: TOKEN }).trimEnd())
    expect(payloads(out)).toHaveLength(2)
    expect(out.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  test('is cut by our own count, though the provider tells another', () => {
    const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
    const filter = newFilter({ max: 3 })
    passed(filter, ...Array(4).fill(sse({ choices: [{ index: 0, delta: { content: TOKEN } }], usage })))
    expect(filter.cut?.completionTokens).toBe(4)
    expect(filter.estimatedCompletionTokens).toBe(4)
    expect(filter.hasProviderCount).toBe(true)
  })

  test('is not cut for what the provider tells alone', () => {
    const filter = newFilter({ max: 3 })
    const stream = sse({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 500, total_tokens: 509 } })
    expect(passed(filter, stream)).toBe(stream)
    expect(filter.cut).toBeUndefined()
  })

  test('is never cut where the rule has no bound', () => {
    const filter = newFilter({})
    const stream = chatStream(Array(2000).fill(TOKEN))
    expect(passed(filter, stream)).toBe(stream)
    expect(filter.cut).toBeUndefined()
  })

  test('counts the text of all choices', () => {
    const filter = newFilter({ max: 3 })
    const out = passed(filter, ...[0, 1, 0, 1, 0].map((index) => chatChunk({ content: TOKEN }, null, index)))
    expect(filter.cut?.completionTokens).toBe(4)
    expect(
      payloads(out)
        .at(-1)!
        .choices!.map(({ index }) => index),
    ).toEqual([0, 1])
  })

  test('closes only the choices that have not ended', () => {
    const stream = [
      chatChunk({ content: TOKEN }, null, 0),
      chatChunk({}, 'stop', 0),
      chatChunk({ content: TOKEN }, null, 1),
      chatChunk({ content: TOKEN }, null, 1),
    ]
    const out = passed(newFilter({ max: 2 }), ...stream)
    expect(payloads(out).at(-1)!.choices).toEqual([{ index: 1, delta: {}, finish_reason: 'length' }])
  })

  test('may end with an error', () => {
    const error = '{"message":"max completion tokens exceeded","type":"rate_limit_error","code":"completion_tokens_exceeded"}'
    const plain = passed(newFilter({ max: 3, close: 'error_chunk' }), six)
    expect(plain.endsWith(`${chatChunk({ content: TOKEN })}data: {"error":${error}}\n\ndata: [DONE]\n\n`)).toBe(true)
    const counted = passed(newFilter({ max: 3, close: 'error_chunk', usage: true }), six)
    const usage = '{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}'
    expect(counted.endsWith(`data: {"error":${error},"usage":${usage}}\n\ndata: [DONE]\n\n`)).toBe(true)
  })

  test('ends in the words of completions', () => {
    const choice = { text: TOKEN, index: 0, logprobs: null, finish_reason: null }
    const out = passed(
      newFilter({ max: 1, usage: true }),
      ...Array(3).fill(sse({ id: 'cmpl-1', object: 'text_completion', choices: [choice] })),
    )
    expect(payloads(out)).toHaveLength(2)
    expect(payloads(out)[1]).toEqual({
      id: 'cmpl-1',
      object: 'text_completion',
      choices: [{ ...choice, text: '', finish_reason: 'length' }],
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    })
    expect(parseSse(out).at(-1)!.data).toBe('[DONE]')
  })

  test('ends in the words of Responses', () => {
    const out = parseSse(passed(newFilter({ max: 2, usage: true }), responsesStream(Array(6).fill(TOKEN))))
    expect(out.filter(({ event }) => event === 'response.output_text.delta')).toHaveLength(2)
    const { event, data } = out.at(-1)!
    expect(event).toBe('response.incomplete')
    expect(JSON.parse(data)).toMatchObject({
      type: 'response.incomplete',
      response: {
        id: 'resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        usage: { input_tokens: 10, output_tokens: 3, total_tokens: 13 },
      },
    })
    const numbers = out.map((each) => JSON.parse(each.data).sequence_number)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
  })

  test('ends in the words of Anthropic', () => {
    const out = parseSse(passed(newFilter({ max: 2, usage: true }), anthropicStream(Array(6).fill(TOKEN))))
    expect(out.map(({ event }) => event)).toEqual([
      'message_start',
      'content_block_start',
      'ping',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    expect(JSON.parse(out[5]!.data)).toEqual({ type: 'content_block_stop', index: 0 })
    expect(JSON.parse(out[6]!.data)).toEqual({
      type: 'message_delta',
      delta: { stop_reason: 'max_tokens', stop_sequence: null },
      usage: { input_tokens: 25, output_tokens: 3 },
    })
  })

  test.each([
    ['Responses', responsesStream(Array(6).fill(TOKEN))],
    ['Anthropic', anthropicStream(Array(6).fill(TOKEN))],
  ])('may end with an error in the words of %s', (_, stream) => {
    const out = passed(newFilter({ max: 2, close: 'error_chunk' }), stream)
    expect(parseSse(out).at(-1)).toMatchObject({ event: 'error', data: expect.stringContaining('"max completion tokens exceeded"') })
    expect(out.endsWith('\n\n')).toBe(true)
    expect(out).not.toContain('[DONE]')
  })
})

describe('the looks at a stream', () => {
  /** How many tokens pass before the cut, where each event brings one. */
  function passing(max: number, buffer: number): number {
    return contentOf(passed(newFilter({ max, buffer }), chatStream(Array(300).fill(TOKEN)))).length / TOKEN.length
  }

  test.each([
    [5, 1, 5],
    [5, 3, 5],
    [6, 3, 8],
    [5, 4, 7],
    [8, 4, 11],
    [1, 100, 99],
    [99, 100, 99],
    [100, 100, 199],
    [150, 100, 199],
    [199, 200, 199],
    [200, 200, 300],
    [5, 1000, 300],
  ])('with a bound of %i come every %i tokens: %i pass', (max, buffer, tokens) => {
    expect(passing(max, buffer)).toBe(tokens)
  })

  test('come every hundred tokens by default', () => {
    const rules = rulesOf(policy('p', { rules: [llmRule('tokens', [], { tokens_per_minute: 1000, max_completion_tokens: 5 })] }))
    const filter = new StreamFilter({ rules, promptEstimate: 0, isActivated: true })
    expect(contentOf(passed(filter, chatStream(Array(300).fill(TOKEN)))).length / TOKEN.length).toBe(99)
  })

  test('come at the event that brings enough, counted from the look before', () => {
    const filter = newFilter({ max: 15, buffer: 10 })
    // Looks at 12; at 21 only 9 have come since; at 22 it looks again.
    const out = passed(filter, chatStream([TOKEN.repeat(12), TOKEN.repeat(9), TOKEN]))
    expect(contentOf(out).length / TOKEN.length).toBe(21)
    expect(filter.cut?.completionTokens).toBe(22)
  })
})

describe('a stream that nobody may touch', () => {
  const long = chatStream(Array(50).fill(TOKEN))

  test('in shadow mode passes byte for byte, and says once what would have been cut', () => {
    const filter = newFilter({ mode: 'shadow', max: 3, usage: true })
    expect(passed(filter, long)).toBe(long)
    expect(filter.cut).toBeUndefined()
    expect(filter.wouldCut).toMatchObject([{ completionTokens: 4, rule: { policy: { mode: 'shadow' } } }])
    expect(filter.counts.output).toBe(50)
  })

  test('with enforce_mid_stream false is counted and not cut, nor would it be', () => {
    for (const mode of ['enforce', 'shadow'] as const) {
      const filter = newFilter({ mode, max: 3, enforces: false })
      expect(passed(filter, long)).toBe(long)
      expect(filter).toMatchObject({ cut: undefined, wouldCut: [], counts: { output: 50 } })
    }
  })

  test('that nobody asked for is counted and nothing else', () => {
    for (const mode of ['enforce', 'shadow'] as const) {
      const filter = newFilter({ mode, max: 3, usage: true }, { isActivated: false })
      expect(passed(filter, long)).toBe(long)
      expect(filter).toMatchObject({ cut: undefined, wouldCut: [], counts: { output: 50 } })
    }
  })
})

describe('several rules', () => {
  const long = chatStream(Array(50).fill(TOKEN))

  test('are each looked at on their own: the first to be exceeded cuts, its way', () => {
    const filter = newFilter([
      { max: 20, close: 'graceful_close' },
      { max: 5, close: 'error_chunk' },
    ])
    const out = passed(filter, long)
    expect(filter.cut).toMatchObject({ rule: { policy: { id: 'p1' } }, completionTokens: 6 })
    expect(out).toContain('"error":')
    expect(out).not.toContain('"length"')
  })

  test('that are exceeded by the same event: the first in the bundle cuts', () => {
    const filter = newFilter([
      { max: 5, close: 'error_chunk' },
      { max: 5, close: 'graceful_close' },
    ])
    expect(passed(filter, long)).toContain('"error":')
    expect(filter.cut?.rule.policy.id).toBe('p0')
  })

  test('look at intervals of their own', () => {
    const filter = newFilter([
      { max: 5, buffer: 10 },
      { max: 7, buffer: 1 },
    ])
    passed(filter, long)
    expect(filter.cut).toMatchObject({ rule: { policy: { id: 'p1' } }, completionTokens: 8 })
  })

  test('end the stream with usage where the one that cuts wants it', () => {
    const closing = (settings: readonly Settings[]): object => payloads(passed(newFilter(settings), long)).at(-1)!
    expect(closing([{ max: 5, usage: false }, { usage: true }])).not.toHaveProperty('usage')
    expect(closing([{ max: 5, usage: true }, { usage: false }])).toHaveProperty('usage')
  })

  test('in shadow mode tell of their own cut, and do not hold up the one that enforces', () => {
    const filter = newFilter([{ mode: 'shadow', max: 3 }, { mode: 'shadow', max: 4 }, { mode: 'shadow', max: 30 }, { max: 10 }])
    passed(filter, long)
    expect(filter.wouldCut.map(({ rule, completionTokens }) => [rule.policy.id, completionTokens])).toEqual([
      ['p0', 4],
      ['p1', 5],
    ])
    expect(filter.cut).toMatchObject({ rule: { policy: { id: 'p3' } }, completionTokens: 11 })
  })

  test('that only count leave the cut to another', () => {
    const filter = newFilter([{ max: 3, enforces: false }, { max: 10 }])
    passed(filter, long)
    expect(filter.cut?.rule.policy.id).toBe('p1')
  })
})

describe('an event that is too large to be held back', () => {
  const large = chatChunk({ content: 'x'.repeat(1000) })

  test('passes while it is scanned, and counts its text', () => {
    const filter = newFilter({ usage: true }, { maxEventBytes: 400 })
    expect(passed(filter, large)).toBe(large)
    expect(filter.counts.output).toBe(250)
  })

  test('counts once, in however many parts it came', () => {
    const filter = newFilter({}, { maxEventBytes: 400 })
    const middle = large.length / 2
    expect(passed(filter, large.slice(0, middle), large.slice(middle), large)).toBe(large + large)
    expect(filter.counts.output).toBe(500)
  })

  test('cuts the stream behind it', () => {
    const filter = newFilter({ max: 50 }, { maxEventBytes: 400 })
    const small = chatChunk({ content: TOKEN })
    const out = passed(filter, small + large.slice(0, 500), large.slice(500) + small)
    expect(out.startsWith(small + large)).toBe(true)
    expect(out.slice((small + large).length)).toMatch(/^data: \{"id":"chatcmpl-.*"finish_reason":"length"\}\]\}\n\ndata: \[DONE\]\n\n$/)
    expect(filter.cut?.completionTokens).toBe(Math.ceil((1000 + TOKEN.length) / 4))
  })

  test('is one above a mebibyte', () => {
    const filter = newFilter({})
    const rest = chatChunk({ content: '' }).length
    passed(filter, chatChunk({ content: 'x'.repeat(MAX_EVENT_BYTES - rest) }))
    expect(MAX_EVENT_BYTES).toBe(1024 * 1024)
    expect(filter.counts.output).toBe(Math.ceil((MAX_EVENT_BYTES - rest) / 4))
    passed(filter, chatChunk({ content: 'x'.repeat(MAX_EVENT_BYTES - rest + 1) }))
    expect(filter.counts.output).toBe(Math.ceil((2 * (MAX_EVENT_BYTES - rest) + 1) / 4))
  })
})

describe('a stream that fails', () => {
  test.each(Object.entries(FAILED_STREAMS))('is an error and nothing else: %s', (_, text) => {
    const filter = newFilter({ max: 1, usage: false })
    expect(passed(filter, text)).toBe(text)
    expect(filter.hasFailed).toBe(true)
  })

  test('has not failed where it has brought text, or the provider counts it', () => {
    const error = sse({ error: { message: 'x' } })
    const withText = newFilter({})
    passed(withText, chatChunk({ content: 'x' }), error)
    expect(withText.hasFailed).toBe(false)
    const withPrompt = newFilter({})
    passed(withPrompt, sse({ type: 'message_start', message: { usage: { input_tokens: 5 } } }), sse({ type: 'error', error: {} }))
    expect(withPrompt.hasFailed).toBe(false)
    const withUsage = newFilter({})
    passed(withUsage, sse({ choices: [], usage: { completion_tokens: 0 } }), error)
    expect(withUsage.hasFailed).toBe(false)
  })

  test('has not failed where it was merely empty', () => {
    for (const text of ['', ': c\n\n', sse('[DONE]'), chatStream([]), sse({ status: 'ok' })]) {
      const filter = newFilter({})
      passed(filter, text)
      expect(filter.hasFailed).toBe(false)
    }
  })
})
