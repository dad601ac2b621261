import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { endpointOf } from '../../src/llm/endpoints.ts'
import { LlmRequestReader } from '../../src/llm/llm-request.ts'
import { LlmResponseReader } from '../../src/llm/llm-response.ts'
import { StreamFilter } from '../../src/llm/stream-filter.ts'
import { GEMINI_NAMES, geminiAnswerByTree, geminiRequestByTree, hasBothSpellings } from '../support/llm/gemini-tree.ts'
import { CUTS, damaged, isJson, pieces, respelled } from '../support/llm/json-spelling.ts'
import { sse } from '../support/llm/llm-streams.ts'
import { runs } from '../support/run/property-runs.ts'

const TEXT = fc.string({ unit: fc.constantFrom('a', 'é', '😀', '"', '\n', '\\'), maxLength: 12 })
const ANYTHING = fc.jsonValue({ maxDepth: 2 })
const COUNT = fc.oneof(fc.nat(300), fc.nat(300).map(String), fc.constantFrom(null, -1, 1.5, 'x', '', [], 2 ** 60))

const part = fc.oneof(
  fc.record({ text: TEXT, thought: fc.boolean() }, { requiredKeys: [] }),
  fc.record({ functionCall: fc.oneof(fc.record({ name: TEXT, args: ANYTHING }), ANYTHING) }),
  fc.record({ executableCode: fc.record({ code: TEXT }), codeExecutionResult: fc.record({ output: TEXT }) }, { requiredKeys: [] }),
)
const promptPart = fc.oneof(
  part,
  fc.record({ functionResponse: fc.record({ response: ANYTHING }) }),
  fc.record({
    inlineData: fc.record({ mimeType: fc.constantFrom('text/plain', 'text/csv', 'image/png', 'application/json'), data: TEXT }),
  }),
  ANYTHING,
)
const content = fc.oneof(fc.record({ role: TEXT, parts: fc.oneof(fc.array(promptPart, { maxLength: 4 }), promptPart) }), TEXT)
const contents = fc.oneof({ weight: 5, arbitrary: fc.array(content, { maxLength: 4 }) }, content, ANYTHING)
const config = fc.oneof(
  fc.record(
    { maxOutputTokens: COUNT, max_output_tokens: COUNT, candidateCount: COUNT, candidate_count: COUNT, responseSchema: ANYTHING },
    { requiredKeys: [] },
  ),
  ANYTHING,
)
const embedded = fc.record({ content, title: TEXT, taskType: TEXT }, { requiredKeys: [] })
const request = fc.record(
  {
    contents,
    systemInstruction: contents,
    system_instruction: contents,
    content: contents,
    requests: fc.oneof(fc.array(embedded, { maxLength: 3 }), ANYTHING),
    tools: ANYTHING,
    toolConfig: ANYTHING,
    tool_config: ANYTHING,
    generationConfig: config,
    generation_config: config,
    safetySettings: ANYTHING,
    cachedContent: TEXT,
    other: fc.oneof(ANYTHING, fc.constant('x'.repeat(300))),
  },
  { requiredKeys: [] },
)

const usage = fc.record(
  {
    promptTokenCount: COUNT,
    candidatesTokenCount: COUNT,
    thoughtsTokenCount: COUNT,
    toolUsePromptTokenCount: COUNT,
    cachedContentTokenCount: COUNT,
    totalTokenCount: COUNT,
    prompt_token_count: COUNT,
    trafficType: TEXT,
  },
  { requiredKeys: [] },
)
const candidate = fc.record(
  {
    content: fc.record({ parts: fc.array(fc.oneof(part, ANYTHING), { maxLength: 3 }) }),
    finishReason: fc.constant('STOP'),
    index: fc.nat(2),
  },
  { requiredKeys: [] },
)
const answer = fc.record(
  { candidates: fc.array(candidate, { maxLength: 3 }), usageMetadata: usage, modelVersion: fc.constantFrom('m', 'models/m') },
  { requiredKeys: [] },
)

describe('the reader of Gemini requests', () => {
  const read = (text: string, cuts: readonly number[]) => {
    const reader = new LlmRequestReader('utf8', endpointOf('/v1beta/models/m:generateContent'))
    for (const piece of pieces(Buffer.from(text), cuts)) reader.push(piece, 0, piece.length)
    return reader.end()
  }

  test('says what JSON.parse and its tree say, in any pieces, unless a field comes in both spellings', () => {
    fc.assert(
      fc.property(request, CUTS, (body, cuts) => {
        const text = JSON.stringify(body)
        const expected = hasBothSpellings(text) ? 'repeated_descriptor' : geminiRequestByTree(text)
        const found = read(text, cuts)
        if (typeof expected === 'string') expect(found).toBe(expected)
        else expect(found).toMatchObject({ ...expected, model: 'm' })
      }),
      { numRuns: runs(60) },
    )
  })

  test('reads whatever else comes, and takes nothing for JSON that is none', () => {
    fc.assert(
      fc.property(damaged(request.map((body) => Buffer.from(JSON.stringify(body)).toString('latin1'))), CUTS, (text, cuts) => {
        const bytes = Buffer.from(text, 'latin1').toString()
        const found = read(bytes, cuts)
        if (typeof found === 'object' && !isJson(bytes)) expect(found).toMatchObject({ requestedTokens: undefined, model: undefined })
      }),
      { numRuns: runs(30) },
    )
  })

  test('knows every name of the tree', () => {
    for (const name of GEMINI_NAMES.filter((each) => each !== 'model')) {
      expect(read(`{"${name}":null,"${name}":null}`, [])).toBe('repeated_descriptor')
    }
  })
})

describe('the reader of whole answers of Gemini', () => {
  const anyAnswer = fc.oneof(answer, fc.array(answer, { maxLength: 4 }))

  test('says what JSON.parse and its tree say, of one answer and of a list, however spelled, in any pieces', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          anyAnswer.map((body) => JSON.stringify(body)),
          respelled(anyAnswer),
        ),
        CUTS,
        (text, cuts) => {
          const reader = new LlmResponseReader()
          for (const piece of pieces(Buffer.from(text), cuts)) reader.push(piece, 0, piece.length)
          const { characters, countedCharacters, ...counts } = reader.end()
          const { characters: least, countedCharacters: counted, ...expected } = geminiAnswerByTree(text)
          expect(counts).toEqual(expected)
          // A call counts as it is written, so that a name which comes twice counts each time.
          if (JSON.stringify(JSON.parse(text)) === text) expect(characters).toBe(least)
          expect(characters).toBeGreaterThanOrEqual(least)
          expect(countedCharacters === characters).toBe(counted === least)
        },
      ),
      { numRuns: runs(60) },
    )
  })

  test('has seen no more of a list that breaks off than of all of it', () => {
    fc.assert(
      fc.property(fc.array(answer, { minLength: 1, maxLength: 3 }), fc.nat(1000), (body, at) => {
        const bytes = Buffer.from(JSON.stringify(body))
        const broken = (end: number): number => {
          const reader = new LlmResponseReader()
          reader.push(bytes, 0, end)
          return reader.breakOff().characters
        }
        const whole = geminiAnswerByTree(bytes.toString()).characters
        expect(broken(at % bytes.length)).toBeLessThanOrEqual(whole)
        expect(broken(bytes.length - 1)).toBe(whole)
      }),
      { numRuns: runs(30) },
    )
  })
})

describe('a stream of Gemini', () => {
  test('passes unchanged, and counts the same in any pieces', () => {
    fc.assert(
      fc.property(fc.array(answer, { maxLength: 5 }), CUTS, fc.constantFrom('\n', '\r\n'), (events, cuts, lineEnd) => {
        const text = events
          .map((event) => sse(event))
          .join('')
          .replaceAll('\n', lineEnd)
        const filtered = (chunks: readonly Buffer[]) => {
          const filter = new StreamFilter({ rules: [], promptEstimate: 3, isActivated: true })
          const passed = chunks.map((chunk) => filter.push(chunk).toString('latin1')).join('')
          return { passed: passed + filter.end().toString('latin1'), counts: filter.counts, hasUsage: filter.hasUsage }
        }
        const whole = filtered([Buffer.from(text)])
        expect(whole.passed).toBe(Buffer.from(text).toString('latin1'))
        expect(filtered(pieces(Buffer.from(text), cuts))).toEqual(whole)
      }),
      { numRuns: runs(40) },
    )
  })
})
