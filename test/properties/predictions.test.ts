import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PredictionReader } from '../../src/llm/dialects/predictions.ts'
import { endpointOf } from '../../src/llm/endpoints.ts'
import { asList, asObject } from '../../src/llm/json.ts'
import { LlmRequestReader } from '../../src/llm/llm-request.ts'
import { MAX_TOKENS } from '../../src/llm/usage.ts'
import { CUTS, pieces, respelled } from '../support/llm/json-spelling.ts'
import { runs } from '../support/run/property-runs.ts'

const ANYTHING = fc.jsonValue({ maxDepth: 2 })
const COUNT = fc.oneof(
  fc.nat(300),
  fc.nat(300).map(String),
  fc.constantFrom(null, -1, -0, 1.5, 'x', '', [], 2 ** 60, 1e300, '9'.repeat(30)),
)
const instance = fc.oneof(fc.record({ content: fc.string() }), fc.record({ prompt: fc.string(), max_tokens: fc.nat() }), ANYTHING)
const request = fc.record(
  {
    instances: fc.oneof({ weight: 4, arbitrary: fc.array(instance, { maxLength: 4 }) }, ANYTHING),
    parameters: fc.oneof(fc.record({ candidateCount: COUNT, n: COUNT, maxOutputTokens: COUNT }, { requiredKeys: [] }), ANYTHING),
    max_tokens: COUNT,
    messages: ANYTHING,
    input: ANYTHING,
    max_output_tokens: COUNT,
    model: fc.constantFrom('cheap', 'm'),
  },
  { requiredKeys: [] },
)
const total = fc.oneof(fc.record({ totalTokens: COUNT, totalBillableCharacters: COUNT }, { requiredKeys: [] }), ANYTHING)
const tokens = fc.record({ inputTokenCount: total, outputTokenCount: total }, { requiredKeys: [] })
const prediction = fc.oneof(
  fc.record({
    embeddings: fc.record({ statistics: fc.oneof(fc.record({ token_count: COUNT, truncated: fc.boolean() }), ANYTHING), values: ANYTHING }),
  }),
  ANYTHING,
)
const response = fc.record(
  {
    predictions: fc.oneof({ weight: 4, arbitrary: fc.array(prediction, { maxLength: 4 }) }, ANYTHING),
    metadata: fc.oneof(fc.record({ tokenMetadata: fc.oneof(tokens, ANYTHING) }, { requiredKeys: [] }), ANYTHING),
    usage: ANYTHING,
  },
  { requiredKeys: [] },
)

describe('a request to predict', () => {
  test('states no bound whatever it says, has the model of its path, and pays for every instance', () => {
    fc.assert(
      fc.property(request, CUTS, (body, cuts) => {
        const reader = new LlmRequestReader('utf8', endpointOf('/v1/projects/p/locations/l/endpoints/m:predict'))
        const text = JSON.stringify(body)
        for (const piece of pieces(Buffer.from(text), cuts)) reader.push(piece, 0, piece.length)
        const found = reader.end()
        const instances = asList(body.instances).filter((each) => typeof each === 'string' || (typeof each === 'object' && each !== null))
        expect(found).toMatchObject({ requestedTokens: undefined, model: 'm', isPrediction: true })
        const { choices, promptTokens } = found as Exclude<typeof found, string>
        expect(choices).toBeGreaterThanOrEqual(instances.length)
        const written = instances.reduce<number>((sum, each) => sum + (typeof each === 'string' ? [...each].length : textLength(each)), 0)
        expect(promptTokens).toBeGreaterThanOrEqual(Math.ceil(written / 4))
      }),
      { numRuns: runs(60) },
    )
  })
})

describe('the reader of predictions', () => {
  test('says what JSON.parse and its tree say, however the text is spelled and cut', () => {
    fc.assert(
      fc.property(respelled(response), CUTS, (text, cuts) => {
        const reader = new PredictionReader()
        for (const piece of pieces(Buffer.from(text), cuts)) reader.push(piece, 0, piece.length)
        const { promptTokens, completionTokens, characters } = reader.end()
        expect({ promptTokens, completionTokens, characters }).toEqual({ ...byTree(text), characters: 0 })
      }),
      { numRuns: runs(100) },
    )
  })
})

function byTree(text: string): object {
  const answer = asObject(JSON.parse(text))
  const metadata = asObject(asObject(answer?.['metadata'])?.['tokenMetadata'])
  const output = countOf(asObject(metadata?.['outputTokenCount'])?.['totalTokens'])
  const input = countOf(asObject(metadata?.['inputTokenCount'])?.['totalTokens'])
  if (output !== undefined) return { promptTokens: input, completionTokens: output }
  const counts = asList(answer?.['predictions']).map((each) =>
    countOf(asObject(asObject(asObject(each)?.['embeddings'])?.['statistics'])?.['token_count']),
  )
  const sum = counts.reduce<number>((all, count) => all + (count ?? 0), 0)
  return sum > 0
    ? { promptTokens: Math.min(sum, MAX_TOKENS), completionTokens: 0 }
    : { promptTokens: undefined, completionTokens: undefined }
}

function countOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  return Number.isInteger(number) && (number as number) >= 0 ? Math.min(number as number, MAX_TOKENS) : undefined
}

function textLength(value: object): number {
  return Object.keys(value).length === 0 ? 0 : [...JSON.stringify(value)].length
}
