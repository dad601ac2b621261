import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LlmResponseReader } from '../../src/llm/llm-response.ts'
import { StreamFilter } from '../../src/llm/stream-filter.ts'
import { chargedTokens, countTokens, estimatedTokens, type TokenCounts } from '../../src/llm/usage.ts'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'
import { CUTS, pieces, respelled } from '../support/llm/json-spelling.ts'
import { parseSse } from '../support/llm/llm-streams.ts'
import { runs } from '../support/run/property-runs.ts'

const PROMPT = 9
/** What is no count in any API. */
const NO_COUNT = fc.constantFrom<unknown>(-1, -5e9, 1.5, 2 ** 53, 1e300, 'x', '', '-3', '1.5', [], {}, [7], true, false, null)
const ANY_COUNT = fc.oneof(fc.nat(60), fc.nat(60).map(String), fc.constantFrom(0, -0, 2 ** 53 - 1, '9007199254740991'), NO_COUNT)
const TEXTS = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '😀', '"', '\\', '\n'), maxLength: 12 }), { maxLength: 5 })

interface Format {
  /** A usage object of this API, with these counts. */
  readonly usage: (count: fc.Arbitrary<unknown>) => fc.Arbitrary<object>
  /** The response that came whole. */
  readonly whole: (text: string, usage: object) => object
  /** An event with text, and one with usage; undefined if the API has no streams. */
  readonly text?: (text: string) => object
  readonly counted?: (usage: object) => object
}

const openUsage = (count: fc.Arbitrary<unknown>) =>
  fc.record(
    {
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      prompt_tokens_details: fc.oneof(fc.record({ cached_tokens: count, cache_write_tokens: count }), count),
      cache_read_input_tokens: count,
    },
    { requiredKeys: [] },
  )
const anthropicUsage = (count: fc.Arbitrary<unknown>) =>
  fc.record(
    {
      input_tokens: count,
      output_tokens: count,
      cache_read_input_tokens: count,
      cache_creation_input_tokens: count,
      cache_creation: fc.oneof(fc.record({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }), count),
    },
    { requiredKeys: [] },
  )
const geminiUsage = (count: fc.Arbitrary<unknown>) =>
  fc.record(
    {
      promptTokenCount: count,
      prompt_token_count: count,
      candidatesTokenCount: count,
      thoughtsTokenCount: count,
      toolUsePromptTokenCount: count,
      cachedContentTokenCount: count,
      totalTokenCount: count,
      total_token_count: count,
    },
    { requiredKeys: [] },
  )
const CHAT: Format = {
  usage: openUsage,
  whole: (text, usage) => ({ choices: [{ message: { role: 'assistant', content: text } }], usage }),
  text: (text) => ({ choices: [{ index: 0, delta: { content: text } }] }),
  counted: (usage) => ({ choices: [], usage }),
}
const MESSAGES: Format = {
  usage: anthropicUsage,
  whole: (text, usage) => ({ type: 'message', content: [{ type: 'text', text }], usage }),
  text: (text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
  counted: (usage) => ({ type: 'message_delta', delta: {}, usage }),
}
const FORMATS: Readonly<Record<string, Format>> = {
  chat: CHAT,
  completions: {
    usage: openUsage,
    whole: (text, usage) => ({ choices: [{ text }], usage }),
    text: (text) => ({ choices: [{ index: 0, text }] }),
    counted: CHAT.counted!,
  },
  responses: {
    usage: (count) =>
      fc.record({ input_tokens: count, output_tokens: count, total_tokens: count, input_tokens_details: count }, { requiredKeys: [] }),
    whole: (text, usage) => ({ object: 'response', output: [{ type: 'message', content: [{ type: 'output_text', text }] }], usage }),
    text: (text) => ({ type: 'response.output_text.delta', delta: text }),
    counted: (usage) => ({ type: 'response.in_progress', response: { usage } }),
  },
  messages: MESSAGES,
  embeddings: { usage: openUsage, whole: (_, usage) => ({ object: 'list', data: [{ embedding: [0.5] }], usage }) },
  Gemini: {
    usage: geminiUsage,
    whole: (text, usage) => ({ candidates: [{ content: { parts: [{ text }] }, finishReason: 'STOP' }], usageMetadata: usage }),
    text: (text) => ({ candidates: [{ content: { parts: [{ text }] } }] }),
    counted: (usage) => ({ usageMetadata: usage }),
  },
  'Anthropic in Vertex': MESSAGES,
  Azure: {
    ...CHAT,
    text: (text) => ({ choices: [{ index: 0, delta: { content: text }, content_filter_results: {} }], prompt_filter_results: [] }),
  },
}
const STREAMED = Object.entries(FORMATS).filter(([, { text }]) => text !== undefined)

describe.each(Object.entries(FORMATS))('a whole response of %s', (name, { usage, whole }) => {
  const read = (text: string, cuts: readonly number[]): TokenCounts => {
    const reader = new LlmResponseReader()
    for (const piece of pieces(Buffer.from(text), cuts)) reader.push(piece, 0, piece.length)
    return countTokens(reader.end(), PROMPT)
  }
  const answer = (count: fc.Arbitrary<unknown>) =>
    fc
      .tuple(TEXTS, usage(count))
      .chain(([texts, counts]) => respelled(fc.constant(whole(texts.join(''), counts))).map((text) => ({ texts, text })))

  test('costs the estimate where nothing in its usage is a count, however it is spelled', () => {
    fc.assert(
      fc.property(answer(NO_COUNT), CUTS, ({ texts, text }, cuts) => {
        const output = name === 'embeddings' ? 0 : estimateOf(texts)
        expect(read(text, cuts)).toMatchObject({ input: PROMPT, cachedInput: 0, cacheWrite: 0, output })
      }),
      { numRuns: runs(15) },
    )
  })

  test('can be charged whatever its usage says', () => {
    fc.assert(
      fc.property(answer(ANY_COUNT), CUTS, ({ text }, cuts) => expectChargeable(read(text, cuts))),
      { numRuns: runs(15) },
    )
  })
})

describe.each(STREAMED)('a stream of %s', (_, { usage, text: textEvent, counted }) => {
  /** Usage may come at any place and any number of times. */
  const stream = (count: fc.Arbitrary<unknown>) =>
    fc.tuple(TEXTS, fc.array(fc.tuple(fc.nat(5), usage(count)), { maxLength: 3 })).chain(([texts, counts]) => {
      const events: object[] = texts.map((text) => textEvent!(text))
      for (const [at, each] of counts) events.splice(at, 0, counted!(each))
      return fc
        .tuple(...events.map((event) => respelled(fc.constant(event))))
        .map((lines) => ({ texts, bytes: Buffer.from(lines.map(asEvent).join('')) }))
    })

  test('costs the estimate where nothing in its usage is a count', () => {
    fc.assert(
      fc.property(stream(NO_COUNT), CUTS, ({ texts, bytes }, cuts) => {
        const filter = new StreamFilter({ rules: [], promptEstimate: PROMPT, isActivated: true })
        for (const piece of pieces(bytes, cuts)) filter.push(piece)
        filter.end()
        expect(filter.counts).toMatchObject({ input: PROMPT, cachedInput: 0, cacheWrite: 0, output: estimateOf(texts) })
      }),
      { numRuns: runs(15) },
    )
  })

  test('never has text for free behind the last count', () => {
    const tail = 'text behind it'
    fc.assert(
      fc.property(stream(ANY_COUNT), CUTS, ({ texts, bytes }, cuts) => {
        const filter = new StreamFilter({ rules: [], promptEstimate: PROMPT, isActivated: true })
        const all = Buffer.concat([bytes, Buffer.from(asEvent(JSON.stringify(textEvent!(tail))))])
        for (const piece of pieces(all, cuts)) filter.push(piece)
        filter.end()
        expect(filter.counts.output).toBeGreaterThanOrEqual(estimateOf([...texts, tail]))
      }),
      { numRuns: runs(15) },
    )
  })

  test.each(['graceful_close', 'error_chunk'])('can be charged, and cut with %s, whatever its usage says', (how) => {
    const config = { tokens_per_minute: 1000, max_completion_tokens: 2, streaming: { buffer_tokens: 1, on_limit_exceeded: how } }
    const { rules } = planOf(bundle(1, policy('p', { rules: [llmRule('r', [], config)] }))).policies[0]!
    fc.assert(
      fc.property(stream(ANY_COUNT), CUTS, ({ texts, bytes }, cuts) => {
        const filter = new StreamFilter({ rules, promptEstimate: PROMPT, isActivated: true })
        let out = ''
        for (const piece of pieces(bytes, cuts)) out += filter.push(piece).toString('latin1')
        out += filter.end().toString('latin1')
        expectChargeable(filter.counts)
        // Text is never free: either the provider has counted, or the estimate holds, and what exceeds the bound does not pass.
        if (!filter.hasUsage) expect(filter.counts.output).toBeGreaterThanOrEqual(Math.min(estimateOf(texts), 3))
        for (const { data } of parseSse(out)) if (data !== '[DONE]') expect(JSON.parse(data)).toBeTypeOf('object')
        if (filter.cut !== undefined) expect(out.endsWith('\n\n')).toBe(true)
      }),
      { numRuns: runs(15) },
    )
  })
})

function estimateOf(texts: readonly string[]): number {
  return estimatedTokens([...texts.join('')].length)
}

/** A line of an event cannot have line ends, which JSON has as white space alone. */
function asEvent(json: string): string {
  return `data: ${json.replaceAll(/[\r\n]/g, ' ')}\n\n`
}

function expectChargeable(counts: TokenCounts): void {
  const { input, cachedInput, cacheWrite, cacheWrite1h, output } = counts
  for (const count of [input, cachedInput, cacheWrite, cacheWrite1h, output]) expect(Number.isSafeInteger(count) && count >= 0).toBe(true)
  expect(cachedInput + cacheWrite).toBeLessThanOrEqual(input)
  expect(cacheWrite1h).toBeLessThanOrEqual(cacheWrite)
  for (const weight of [0, 1, 100, 10_000]) {
    const charged = chargedTokens(counts, { input: weight, cachedInput: 100, cacheWrite: 1, output: weight })
    expect(Number.isSafeInteger(charged) && charged >= 0).toBe(true)
  }
}
