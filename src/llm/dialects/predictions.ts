import { JsonScanner, RESPONSE_LIMITS } from '../json-scanner.ts'
import { fieldsOf, JsonSizes, type Reading } from '../json-sizes.ts'
import { indexesOf, indexOf, type RequestFormat, readings, WRITTEN } from '../request-format.ts'
import { MAX_TOKENS, newTally, type Tally, type TallyReader } from '../usage.ts'

/** Vertex's `predict`: a list of `instances` becomes a list of `predictions`, and each model has its own form of both. */

/** How many answers each instance gets, as Google's and other models spell it. Numbers may be texts, because the API is one of Protocol Buffers. */
const CHOICES_FIELDS = ['candidateCount', 'candidate_count', 'sampleCount', 'sample_count', 'n', 'best_of']
const COUNT: Reading = { number: 'value or text' }
const PARAMETERS: Reading = { fields: fieldsOf(readings(CHOICES_FIELDS, COUNT), { keptAs: 0, others: WRITTEN }) }

const REQUEST = fieldsOf(
  { instances: { ...WRITTEN, list: { ...WRITTEN, isMarked: true } }, parameters: PARAMETERS, model: { text: 'kept' } },
  { others: WRITTEN },
)

/**
 * All text counts, and each instance is a prompt. No bound counts: every model has its own name for it and ignores those of all others, and what the
 * response has cost is often not known afterwards, so that whoever stated a small bound would pay nothing else.
 */
export const PREDICTION_FORMAT: RequestFormat = {
  fields: REQUEST,
  prompts: indexesOf(REQUEST, 'instances'),
  definitions: [],
  model: indexOf(REQUEST, 'model'),
  texts: [],
  stream: undefined,
  background: undefined,
  streamOptions: undefined,
  bounds: () => [],
  choices: ({ keptSizes: [parameters] }) => (parameters === undefined ? [] : [...parameters]),
  hasOwnBound: () => false,
  isRepeated: () => false,
}

/** Indexes of what is kept of a response. */
const [INPUT, OUTPUT, TOKENS, METADATA] = [0, 1, 2, 3]
const RESPONSE = fieldsOf({
  predictions: {
    list: objectWith('embeddings', objectWith('statistics', objectWith('token_count', COUNT))),
  },
  metadata: kept({ tokenMetadata: kept({ inputTokenCount: totalTokens(INPUT), outputTokenCount: totalTokens(OUTPUT) }, TOKENS) }, METADATA),
})
const [PREDICTIONS, OF_RESPONSE] = [0, 1]

/**
 * Reads the counts of a response to `predict`: the tokens of each text that was embedded, or those of texts that were read and generated. If it has neither,
 * it is not understood.
 */
export class PredictionReader implements TallyReader {
  readonly isUnderWay = false
  readonly hasError = false
  readonly isLookedUp = false
  readonly #sizes = new JsonSizes(RESPONSE)
  readonly #scanner = new JsonScanner(this.#sizes, RESPONSE_LIMITS)

  push(bytes: Uint8Array, from: number, to: number): void {
    this.#scanner.push(bytes, from, to)
  }

  end(): Tally {
    const tally = newTally()
    if (!this.#scanner.end()) return tally
    const [input, output] = this.#tokenMetadata()
    if (output >= 0) return { ...tally, completionTokens: capped(output), ...(input >= 0 && { promptTokens: capped(input) }) }
    const embedded = this.#sizes.size(PREDICTIONS)
    return embedded > 0 ? { ...tally, promptTokens: capped(embedded), completionTokens: 0 } : tally
  }

  /** Of a list of counts, those that are missing are unknown, so that nothing is known of a response that was cut off. */
  breakOff(): Tally {
    return newTally()
  }

  #tokenMetadata(): readonly [input: number, output: number] {
    const { keptSizes } = this.#sizes
    if (this.#sizes.size(OF_RESPONSE) !== 1 || keptSizes[METADATA]![0] !== 1) return [-1, -1]
    const [hasInput, hasOutput] = keptSizes[TOKENS]!
    return [hasInput === 1 ? keptSizes[INPUT]![0]! : -1, hasOutput === 1 ? keptSizes[OUTPUT]![0]! : -1]
  }
}

function objectWith(name: string, reading: Reading): Reading {
  return { fields: fieldsOf({ [name]: reading }) }
}

/** An object whose field sizes are kept and whose own size is 1. */
function kept(fields: Readonly<Record<string, Reading>>, keptAs: number): Reading {
  return { fields: fieldsOf(fields, { size: () => 1, keptAs }) }
}

function totalTokens(keptAs: number): Reading {
  return kept({ totalTokens: COUNT }, keptAs)
}

function capped(tokens: number): number {
  return Math.min(tokens, MAX_TOKENS)
}
