import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseJson } from '../../../src/llm/json.ts'
import { StreamFilter } from '../../../src/llm/stream-filter.ts'
import { TextGap } from '../../../src/llm/templates/text-gap.ts'
import { charactersIn } from '../../../src/llm/text-size.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { PlanRule } from '../../../src/policy/plan.ts'
import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import { anyShapedStream } from './shaped-streams.ts'

const anySettings = fc.record({
  mode: fc.constantFrom('enforce', 'enforce', 'enforce', 'shadow'),
  max: fc.constantFrom(undefined, 1, 5, 20, 50),
  streaming: fc.record({
    buffer_tokens: fc.constantFrom(1, 2, 10),
    enforce_mid_stream: fc.constantFrom(true, true, false),
    on_limit_exceeded: fc.constantFrom('graceful_close', 'error_chunk'),
    include_partial_usage: fc.boolean(),
  }),
})

/** How the stream is cut into chunks: whole, byte by byte, behind each event, or anywhere. */
const anyChunking = fc.oneof(
  fc.constantFrom<Chunking>('whole', 'bytes', 'events'),
  fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 20 }),
)
type Chunking = 'whole' | 'bytes' | 'events' | readonly number[]

/** Bytes that stand for themselves in a string, escapes, pieces of them, and UTF-8 that may be broken. */
const anyTextBytes = fc
  .array(
    fc.oneof(
      fc
        .constantFrom('a', ' ', '\\n', '\\"', '\\\\', '\\u', '\\ud83d', '\\uDE00', '0', 'd', '\\', 'é', '東', '😀')
        .map((text) => Buffer.from(text)),
      fc.uint8Array({ minLength: 1, maxLength: 4, min: 0x20 }).map((bytes) => Buffer.from(bytes)),
      fc
        .tuple(fc.integer({ min: 0xc0, max: 0xff }), fc.uint8Array({ maxLength: 3, min: 0x80, max: 0xbf }))
        .map(([lead, rest]) => Buffer.of(lead, ...rest)),
    ),
    { maxLength: 6 },
  )
  .map((parts) => Buffer.concat(parts))

/** Streams through a filter that knows shapes, and through one that parses every event: nobody can tell them apart. */
export function templatesSuite(numRuns: number): void {
  test('the characters of a text are those that the parser gives', () => {
    const gap = new TextGap()
    fc.assert(
      fc.property(anyTextBytes, (text) => {
        const bytes = Buffer.concat([text, Buffer.from('"')])
        gap.begin()
        const end = gap.read(0, bytes, 0, bytes.length)
        const parsed = parseJson(`"${bytes.toString()}`)
        // A text with a quote in it ends there; one in broken UTF-8 is left to the parser.
        if (end === text.length) expect(gap.characters).toBe(charactersIn(parsed))
        if (end < 0) expect(parsed === undefined || !isUtf8(text)).toBe(true)
        if (end >= 0 && end < text.length) expect(parsed).toBeUndefined()
      }),
      { numRuns: numRuns * 20 },
    )
  })

  test('a filter that knows the shapes of events does what one does that parses each of them', () => {
    const anyBound = fc.constantFrom({}, {}, {}, { maxEventBytes: 150 }, { maxEventBytes: 230 })
    fc.assert(
      fc.property(
        anyShapedStream(),
        anyChunking,
        fc.array(anySettings, { minLength: 1, maxLength: 2 }).map(rulesOf),
        fc.constantFrom(true, true, true, false),
        anyBound,
        (bytes, chunking, rules, isActivated, bound) => {
          const options = { rules, promptEstimate: 3, isActivated, ...bound }
          const byShape = new StreamFilter(options)
          const parsing = new StreamFilter({ ...options, maxTemplates: 0 })
          for (const chunk of chunksOf(bytes, chunking)) {
            expect(afterPush(byShape, chunk)).toBe(afterPush(parsing, chunk))
          }
          expect(byShape.end().toString('latin1')).toBe(parsing.end().toString('latin1'))
          expect(stateOf(byShape)).toBe(stateOf(parsing))
        },
      ),
      { numRuns },
    )
  }, 600_000)
}

function afterPush(filter: StreamFilter<PlanRule>, chunk: Buffer): string {
  // The chunk is in memory that is used again, as that of a connection is.
  const shared = Buffer.from(chunk)
  const out = filter.push(shared).toString('latin1')
  shared.fill('!')
  return out === '' ? '' : `${stateOf(filter)}\n${out}`
}

/** Everything that can be seen of a filter, as text, which is compared fast. Its closing shows what the dialect remembers. */
function stateOf(filter: StreamFilter<PlanRule>): string {
  const { counts, hasEnded, hasFailed, hasUsage, hasProviderCount, estimatedCompletionTokens, isBetweenEvents } = filter
  const excesses = [filter.cut, ...filter.wouldCut].map((excess) => excess && [excess.rule.policy.id, excess.completionTokens])
  const flags = { hasEnded, hasFailed, hasUsage, hasProviderCount, isBetweenEvents }
  return JSON.stringify({ counts, excesses, ...flags, estimatedCompletionTokens, closing: filter.close().toString('latin1') })
}

function rulesOf(list: readonly { mode: string; max: number | undefined; streaming: object }[]): PlanRule[] {
  const policies = list.map(({ mode, max, streaming }, i) => {
    const bound = max === undefined ? {} : { max_completion_tokens: max }
    return policy(`p${i}`, { mode, rules: [llmRule('tokens', [], { tokens_per_minute: 1000, ...bound, streaming })] })
  })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!('bundle' in parsed)) throw new Error(JSON.stringify(parsed))
  return compileBundle(parsed.bundle).policies.flatMap(({ rules }) => rules)
}

function chunksOf(bytes: Buffer, chunking: Chunking): Buffer[] {
  if (chunking === 'whole') return [bytes]
  if (chunking === 'bytes') return Array.from(bytes, (byte) => Buffer.of(byte))
  if (chunking === 'events')
    return bytes
      .toString('latin1')
      .split(/(?<=\n\n|\r\r|\r\n\r\n)/)
      .map((text) => Buffer.from(text, 'latin1'))
  const ends = [...chunking.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b), bytes.length]
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}
