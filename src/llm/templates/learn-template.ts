import type { Dialect } from '../dialects/dialect.ts'
import type { JsonObject } from '../json.ts'
import type { SsePiece } from '../sse-framing.ts'
import { newTally } from '../usage.ts'
import { usagePlace } from '../usage-splice.ts'
import { EventTemplate, type Gap, type TemplateUsagePlace } from './event-template.ts'

/** A larger event is parsed each time. Bounds the memory that a stream needs, and what learning costs. */
const MAX_EVENT_BYTES = 2048
const MAX_GAPS = 6
/** A parsed value takes about 50 bytes, and a stream keeps the parsed model of each template. No LLM sends events with this many values. */
const MAX_VALUES = 128

/** The strings that differ from event to event: generated text, and padding that hides its length. */
const TEXT_NAMES = new Set([
  ...['content', 'text', 'refusal', 'reasoning_content', 'reasoning', 'arguments', 'input', 'delta', 'thinking', 'partial_json'],
  ...['obfuscation', 'p'],
])

/**
 * The template of an event that was parsed, and of whose text only the number of characters matters. Undefined where it has no gaps, or too much else.
 *
 * What a gap means is not looked up but measured: the event is read with texts of known sizes in its gaps. So repeated names, names with
 * escapes and texts that do not count come out as the dialect reads them.
 */
export function learnTemplate(piece: SsePiece, spans: readonly number[], dialect: Dialect): EventTemplate | undefined {
  const { bytes, start, end } = piece
  const [from, to] = [spans[0]!, spans[1]!]
  // A byte order mark is one only at the start of the stream.
  if (spans.length !== 2 || end - start > MAX_EVENT_BYTES || piece.isFirst || !piece.isEnded) return undefined
  const places = findGaps(bytes.toString('latin1', from, to))
  if (places.length === 0 || places.length > MAX_GAPS) return undefined
  const edges = [start, ...places.flatMap((place) => [from + place.start, from + place.end]), end]
  const literals: Buffer[] = []
  for (let i = 0; i < edges.length; i += 2) literals.push(bytes.subarray(edges[i], edges[i + 1]))
  const json = literals.map((literal, i) => textOf(literal, i === 0 ? from - start : 0, i === places.length ? end - to : 0))
  if (mostValues(json) > MAX_VALUES) return undefined
  const model = filled(json, places, () => '', 0)
  const probe = filled(json, places, probeText, 1)
  const gaps = measured(places, charactersOf(dialect, probe) - charactersOf(dialect, model))
  const numbers = places.filter(({ kind }) => kind === 'sequence_number').length
  // Another field of that name, nested or repeated, could be mistaken for it.
  const isNumber = numbers === 1 && model['sequence_number'] === 0 && probe['sequence_number'] === 1
  if (numbers > 0 && !isNumber) return undefined
  return gaps && new EventTemplate(literals, gaps, model, templateUsagePlace(piece, spans, model, edges))
}

interface GapPlace {
  readonly kind: Gap['kind']
  readonly start: number
  readonly end: number
}

/** Strings are found one after the other: between them, valid JSON has no quotes. */
function findGaps(json: string): GapPlace[] {
  const places: GapPlace[] = []
  let name = ''
  let valueAt = -1
  for (let at = json.indexOf('"'); at >= 0; at = json.indexOf('"', at)) {
    const end = stringEnd(json, at + 1)
    const behindColon = valueStart(json, end + 1)
    if (behindColon < 0) {
      if (at === valueAt && TEXT_NAMES.has(name)) places.push({ kind: 'text', start: at + 1, end })
      at = end + 1
      continue
    }
    name = json.slice(at + 1, end)
    valueAt = behindColon
    at = behindColon
    const numberEnd = name === 'sequence_number' ? countEnd(json, valueAt) : -1
    if (numberEnd >= 0) places.push({ kind: 'sequence_number', start: valueAt, end: numberEnd })
  }
  return places
}

/** Where the string ends whose text begins here: at its quote. */
function stringEnd(json: string, from: number): number {
  let at = from
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at
}

/** Where the value of a name begins that ends here; -1 for a string that is no name. */
function valueStart(json: string, from: number): number {
  const colon = skipSpace(json, from)
  return json[colon] === ':' ? skipSpace(json, colon + 1) : -1
}

function skipSpace(json: string, from: number): number {
  let at = from
  while (json[at] === ' ' || json[at] === '\t' || json[at] === '\n' || json[at] === '\r') at++
  return at
}

/** Where a whole number ends that begins here and is written as usual; -1 where there is none. */
function countEnd(json: string, from: number): number {
  let at = from
  while (at - from <= MAX_DIGITS && json[at]! >= '0' && json[at]! <= '9') at++
  const digits = at - from
  if (digits === 0 || digits > MAX_DIGITS || (digits > 1 && json[from] === '0')) return -1
  return json[at] === ',' || json[at] === '}' || skipSpace(json, at) > at ? at : -1
}

/** The most digits of a number that is exact. */
const MAX_DIGITS = 15

/** The JSON in a literal, which is all of it but for the rest of the event at its ends. */
function textOf(literal: Buffer, skippedBefore: number, skippedBehind: number): string {
  return literal.toString('utf8', skippedBefore, literal.length - skippedBehind)
}

/** As many as there are signs that begin a value, though some of these may be parts of strings. */
function mostValues(json: readonly string[]): number {
  let count = 0
  for (const text of json) count += text.match(/[[{,]/g)?.length ?? 0
  return count
}

function filled(json: readonly string[], places: readonly GapPlace[], textFor: (index: number) => string, number: number): JsonObject {
  const gaps = places.map(({ kind }, i) => (kind === 'text' ? textFor(i) : String(number)))
  return JSON.parse(json.map((literal, i) => `${literal}${gaps[i] ?? ''}`).join(''))
}

/** Texts whose sizes are powers of four: their sum tells how often each was counted. */
function probeText(index: number): string {
  return 'x'.repeat(4 ** index)
}

function charactersOf(dialect: Dialect, event: JsonObject): number {
  const tally = newTally()
  dialect.read(event, tally)
  return tally.characters
}

function measured(places: readonly GapPlace[], characters: number): Gap[] | undefined {
  const gaps = places.map(({ kind }, i) => ({ kind, weight: Math.floor(characters / 4 ** i) % 4 }))
  return gaps.every(({ weight }) => weight <= 1) ? gaps : undefined
}

/** Gaps are strings or numbers, so that the place is in one of the literals whatever is in them. */
function templateUsagePlace(
  { bytes }: SsePiece,
  spans: readonly number[],
  model: JsonObject,
  edges: readonly number[],
): TemplateUsagePlace | undefined {
  const place = Array.isArray(model['choices']) ? usagePlace(bytes, spans, model['usage']) : undefined
  if (place === undefined) return undefined
  const literal = edges.findIndex((edge, i) => i % 2 === 0 && edge <= place.at && place.at < edges[i + 1]!) / 2
  return { literal, offset: place.at - edges[literal * 2]!, replaced: place.replaced, before: place.before }
}
