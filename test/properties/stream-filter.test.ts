import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { StreamFilter } from '../../src/llm/stream-filter.ts'
import type { StreamFilterOptions } from '../../src/llm/stream-rules.ts'
import type { TokenCounts } from '../../src/llm/usage.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import type { PlanRule } from '../../src/policy/plan.ts'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { FAILED_STREAMS, type LineEnd, parseSse, RECORDED_STREAMS, sse, withLineEnds } from '../support/llm/llm-streams.ts'
import { anyShapedStream } from '../support/llm/shaped-streams.ts'
import { runs } from '../support/run/property-runs.ts'

const STREAMS = [...RECORDED_STREAMS.map(({ text }) => text), ...Object.values(FAILED_STREAMS)]
const LINE_ENDS: readonly LineEnd[] = ['\n', '\r\n', '\r']

const anyLineEnd = fc.constantFrom(...LINE_ENDS)
/** Where chunks end, as shares of the stream; the same place twice is an empty chunk. */
const anyCuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 30 })

interface Settings {
  readonly mode: string
  readonly max: number | undefined
  readonly streaming: object
}

const anySettings: fc.Arbitrary<Settings> = fc.record({
  mode: fc.constantFrom('enforce', 'enforce', 'shadow'),
  max: fc.constantFrom(undefined, 1, 2, 3, 5, 8, 11),
  streaming: fc.record({
    buffer_tokens: fc.constantFrom(1, 2, 4, 100),
    enforce_mid_stream: fc.constantFrom(true, true, false),
    on_limit_exceeded: fc.constantFrom('graceful_close', 'error_chunk'),
    include_partial_usage: fc.boolean(),
  }),
})
const anyRules = fc.array(anySettings, { minLength: 1, maxLength: 3 }).map(rulesOf)

/** Nothing in it touches a stream, though every rule is exceeded. */
const UNTOUCHING = rulesOf([
  { mode: 'shadow', max: 1, streaming: { buffer_tokens: 1 } },
  { mode: 'enforce', max: 1, streaming: { buffer_tokens: 1, enforce_mid_stream: false, include_partial_usage: false } },
  { mode: 'enforce', max: undefined, streaming: { buffer_tokens: 1, include_partial_usage: false } },
])

/** Nonsense in the words of the APIs. */
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, 0, -1, 1.5, 2 ** 53, '', 'text', '😀', 'message_start', 'response.completed', 'error'),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(
    fc.constantFrom(
      ...['choices', 'delta', 'content', 'text', 'index', 'finish_reason', 'usage', 'prompt_tokens', 'completion_tokens', 'total_tokens'],
      ...[
        'type',
        'message',
        'content_block',
        'input',
        'thinking',
        'partial_json',
        'response',
        'sequence_number',
        'id',
        'error',
        'tool_calls',
      ],
      ...['function', 'arguments', 'input_tokens', 'output_tokens', '__proto__', 'constructor'],
    ),
    tie('value'),
    { maxKeys: 5 },
  ),
})).object
const anyType = fc.constantFrom(
  ...[
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
    'ping',
    'error',
  ],
  ...['response.created', 'response.output_text.delta', 'response.completed', 'response.incomplete', 'response.failed'],
)
const anyEvents = fc.array(
  fc.oneof(
    anyValue.map((value) => sse(value as object)),
    fc.tuple(anyValue, anyType).map(([value, type]) => sse({ ...(value as object), type })),
    fc.tuple(anyValue, fc.array(anyValue, { maxLength: 3 })).map(([value, choices]) => sse({ ...(value as object), choices })),
    fc.constantFrom(': c\n\n', 'data: [DONE]\n\n', 'data: {\n\n', 'data\n\n', '\n'),
  ),
  { maxLength: 8 },
)
const anyBytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc
    .string({
      unit: fc.constantFrom(
        'data: ',
        '{"choices":[',
        '{"delta":{"content":"',
        '"}}]}',
        '\n',
        '\r',
        ',',
        '}',
        '"',
        '\\',
        '[DONE]',
        '\ufeff',
        '😀',
      ),
    })
    .map((text) => Buffer.from(text)),
  anyEvents.map((events) => Buffer.from(events.join(''))),
  fc
    .tuple(
      fc.constantFrom(...STREAMS),
      fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), fc.nat(255)), { maxLength: 5 }),
    )
    .map(corrupted),
)

describe('a filter', () => {
  test('passes on the same bytes, counts the same and cuts at the same place in any chunks, with any line ends', () => {
    fc.assert(
      fc.property(fc.constantFrom(...STREAMS), anyLineEnd, anyRules, fc.boolean(), anyCuts, (text, lineEnd, rules, isActivated, cuts) => {
        const bytes = Buffer.from(withLineEnds(text, lineEnd))
        expect(filtered(chunksOf(bytes, cuts), rules, isActivated)).toEqual(filtered([bytes], rules, isActivated))
      }),
      { numRuns: runs(14) },
    )
  })

  test('does so for streams that no provider would send, in memory that is used again', () => {
    fc.assert(
      fc.property(anyShapedStream(), anyCuts, anyRules, fc.boolean(), (bytes, cuts, rules, isActivated) => {
        expect(filtered(chunksOf(bytes, cuts), rules, isActivated)).toEqual(filtered([bytes], rules, isActivated))
      }),
      { numRuns: runs(14) },
    )
  })

  test('does so for one byte a chunk', () => {
    fc.assert(
      fc.property(fc.constantFrom(...STREAMS), anyLineEnd, anyRules, (text, lineEnd, rules) => {
        const bytes = Buffer.from(withLineEnds(text, lineEnd))
        expect(filtered(singleBytes(bytes), rules)).toEqual(filtered([bytes], rules))
      }),
      { numRuns: runs(3) },
    )
  })

  test('tells a client the same whatever the line ends', () => {
    fc.assert(
      fc.property(fc.constantFrom(...STREAMS), anyRules, (text, rules) => {
        const [lf, ...others] = LINE_ENDS.map((lineEnd) => filtered([Buffer.from(withLineEnds(text, lineEnd))], rules))
        for (const other of others) {
          expect(parseSse(other!.out)).toEqual(parseSse(lf!.out))
          expect({ ...other, out: '' }).toEqual({ ...lf, out: '' })
        }
      }),
      { numRuns: runs(14) },
    )
  })

  test('counts the same and cuts at the same event in any chunks, though events are too large to be read', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...STREAMS),
        anyRules,
        anyCuts,
        fc.constantFrom(1, 50, 150, 200, 250, 300),
        (text, rules, cuts, maxEventBytes) => {
          const bytes = Buffer.from(text)
          expect(filtered(chunksOf(bytes, cuts), rules, true, { maxEventBytes })).toEqual(filtered([bytes], rules, true, { maxEventBytes }))
        },
      ),
      { numRuns: runs(10) },
    )
  })

  test('passes every byte at once but those of an event that is not complete', () => {
    fc.assert(
      fc.property(fc.constantFrom(...STREAMS), anyCuts, (text, cuts) => {
        const filter = new StreamFilter({ rules: UNTOUCHING, promptEstimate: 3, isActivated: true })
        let [taken, given] = ['', '']
        for (const chunk of chunksOf(Buffer.from(text), cuts)) {
          taken += chunk.toString('latin1')
          given += filter.push(chunk).toString('latin1')
          expect(given).toBe(taken.slice(0, taken.lastIndexOf('\n\n') < 0 ? 0 : taken.lastIndexOf('\n\n') + 2))
        }
      }),
      { numRuns: runs(14) },
    )
  })

  test('lets every byte through unchanged where nothing is enforced and no usage is added, whatever the bytes', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, fc.constantFrom({ maxEventBytes: 10 }, { maxEventBytes: 100 }, {}), (bytes, cuts, bounds) => {
        expect(filtered(chunksOf(bytes, cuts), UNTOUCHING, true, bounds).out).toBe(bytes.toString('latin1'))
      }),
      { numRuns: runs(14) },
    )
  })

  test('lets every byte through unchanged where nobody asked for a stream, whatever the rules', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, anyRules, (bytes, cuts, rules) => {
        expect(filtered(chunksOf(bytes, cuts), rules, false)).toMatchObject({ out: bytes.toString('latin1'), cut: undefined, wouldCut: [] })
      }),
      { numRuns: runs(10) },
    )
  })

  test('survives whatever comes, counts in whole tokens, and ends what it cuts with a blank line', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, anyRules, (bytes, cuts, rules) => {
        const { out, cut, counts } = filtered(chunksOf(bytes, cuts), rules)
        expect(Number.isSafeInteger(counts.input) && counts.input >= 0).toBe(true)
        expect(Number.isSafeInteger(counts.output) && counts.output >= 0).toBe(true)
        if (cut !== undefined) expect(out.endsWith('\n\n')).toBe(true)
      }),
      { numRuns: runs(14) },
    )
  })

  test('passes whole events within the bound and then one ending, where it looks at every token', () => {
    const anyClosing = fc.constantFrom('graceful_close', 'error_chunk')
    fc.assert(
      fc.property(fc.constantFrom(...STREAMS), fc.integer({ min: 1, max: 14 }), anyClosing, anyCuts, (text, max, how, cuts) => {
        const streaming = { buffer_tokens: 1, include_partial_usage: false, on_limit_exceeded: how }
        const bytes = Buffer.from(text)
        const { out, cut } = filtered(chunksOf(bytes, cuts), rulesOf([{ mode: 'enforce', max, streaming }]))
        let common = 0
        while (common < bytes.length && out.charCodeAt(common) === bytes[common]) common++
        if (cut === undefined) {
          expect(common).toBe(bytes.length)
          return
        }
        const passed = out.slice(0, Math.max(0, out.lastIndexOf('\n\n', common - 1) + 2))
        const uncut = new StreamFilter({ rules: [], promptEstimate: 0, isActivated: true })
        uncut.push(Buffer.from(passed, 'latin1'))
        expect(uncut.estimatedCompletionTokens).toBeLessThanOrEqual(max)
        const ending = parseSse(out.slice(passed.length)).map(({ data }) => data)
        expect(ending.length).toBeGreaterThan(0)
        for (const data of ending) if (data !== '[DONE]') expect(JSON.parse(data)).toBeTypeOf('object')
      }),
      { numRuns: runs(10) },
    )
  })

  test('parses each event once, however many chunks it comes in', () => {
    const text = STREAMS.join('')
    const json = parseSse(text).filter(({ data }) => data.startsWith('{')).length
    const parse = vi.spyOn(JSON, 'parse')
    filtered(singleBytes(Buffer.from(text)), UNTOUCHING)
    const calls = parse.mock.calls.length
    parse.mockRestore()
    expect(calls).toBe(json)
  })
})

interface Filtered {
  readonly out: string
  readonly cut: object | undefined
  readonly wouldCut: readonly object[]
  readonly counts: TokenCounts
  readonly flags: readonly boolean[]
}

type Bounds = Pick<StreamFilterOptions<PlanRule>, 'maxEventBytes'>

function filtered(chunks: readonly Buffer[], rules: readonly PlanRule[], isActivated = true, bounds: Bounds = {}): Filtered {
  const filter = new StreamFilter({ rules, promptEstimate: 3, isActivated, ...bounds })
  const passed = chunks.map((chunk) => {
    // The chunk is in memory that is used again, as that of a connection is.
    const shared = Buffer.from(chunk)
    const text = filter.push(shared).toString('latin1')
    shared.fill('!')
    return text
  })
  const out = passed.join('') + filter.end().toString('latin1')
  const excess = ({ rule, completionTokens }: { rule: PlanRule; completionTokens: number }): object => ({
    id: rule.policy.id,
    completionTokens,
  })
  return {
    out,
    cut: filter.cut && excess(filter.cut),
    wouldCut: filter.wouldCut.map(excess),
    counts: filter.counts,
    flags: [filter.hasEnded, filter.hasFailed, filter.hasProviderCount],
  }
}

function rulesOf(list: readonly Settings[]): PlanRule[] {
  const policies = list.map(({ mode, max, streaming }, i) => {
    const bound = max === undefined ? {} : { max_completion_tokens: max }
    return policy(`p${i}`, { mode, rules: [llmRule('tokens', [], { tokens_per_minute: 1000, ...bound, streaming })] })
  })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!('bundle' in parsed)) throw new Error(JSON.stringify(parsed))
  return compileBundle(parsed.bundle).policies.flatMap(({ rules }) => rules)
}

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b), bytes.length]
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

function singleBytes(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (byte) => Buffer.of(byte))
}

function corrupted([text, changes]: [string, [number, number][]]): Buffer {
  const bytes = Buffer.from(text)
  for (const [share, byte] of changes) bytes[Math.floor(share * bytes.length)] = byte
  return bytes
}
