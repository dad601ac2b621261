import type { JsonObject } from '../json.ts'
import type { UsagePlace } from '../usage-splice.ts'
import type { TextGap } from './text-gap.ts'

/** A place in an event where the next of the same shape may have something else. */
export interface Gap {
  readonly kind: 'text' | 'sequence_number'
  /** How often the text's characters are counted: 0 or 1. */
  readonly weight: number
}

/** A place for usage: an offset in one of the literals. */
export interface TemplateUsagePlace extends UsagePlace {
  readonly literal: number
  readonly offset: number
}

/**
 * The shape of an event: all its bytes, except for gaps. Whatever fits is read as its model, the parsed event with empty texts; only the number of
 * characters in the gaps comes on top.
 */
export class EventTemplate {
  /** The event with empty texts, and the sequence number of the last one that fitted. */
  readonly model: JsonObject
  readonly usagePlace: TemplateUsagePlace | undefined
  /** Of the last event that fitted: characters to count, where it ends, where usage is put. */
  characters = 0
  end = 0
  usageAt = 0
  /** The number of the last event that fitted. */
  lastUsed = 0
  readonly #gaps: readonly Gap[]
  /** All literals, one behind the other, and where each ends. */
  readonly #literals: Buffer
  readonly #literalEnds: readonly number[]
  readonly #numbered: { sequence_number: number } | undefined

  /** There is one literal more than gaps: the event's bytes before, between and behind them. */
  constructor(literals: readonly Buffer[], gaps: readonly Gap[], model: JsonObject, usagePlace: TemplateUsagePlace | undefined) {
    this.model = model
    this.usagePlace = usagePlace
    this.#gaps = gaps
    this.#literals = Buffer.concat(literals)
    let end = 0
    this.#literalEnds = literals.map(({ length }) => (end += length))
    if (gaps.some(({ kind }) => kind === 'sequence_number')) this.#numbered = model as { sequence_number: number }
  }

  /** Whether the bytes begin with a whole event of this shape. `texts` has read nothing but these bytes. */
  fits(bytes: Buffer, from: number, to: number, texts: TextGap): boolean {
    const gaps = this.#gaps
    let characters = 0
    let number = -1
    let text = 0
    let at = from
    let literal = 0
    for (let i = 0; ; i++) {
      const literalEnd = this.#literalEnds[i]!
      const after = at + literalEnd - literal
      if (after > to || !isSame(bytes, at, this.#literals, literal, literalEnd)) return false
      if (i === this.usagePlace?.literal) this.usageAt = at + this.usagePlace.offset
      literal = literalEnd
      at = after
      if (i === gaps.length) break
      const { kind, weight } = gaps[i]!
      if (kind === 'text') {
        at = texts.read(text++, bytes, at, to)
        if (at < 0) return false
        characters += weight * texts.characters
      } else {
        const start = at
        for (number = 0; at < to && isDigit(bytes[at]!); at++) number = number * 10 + bytes[at]! - ZERO
        if (!isCount(bytes, start, at)) return false
      }
    }
    this.characters = characters
    this.end = at
    if (this.#numbered !== undefined) this.#numbered.sequence_number = number
    return true
  }
}

const ZERO = 0x30
/** Every whole number with this many digits is exact. */
const MAX_DIGITS = 15
/** Below this many bytes, a call of native code costs more than it saves. */
const MIN_NATIVE_BYTES = 56

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= 0x39
}

/** RFC 8259 6: no zero before another digit. */
function isCount(bytes: Buffer, from: number, to: number): boolean {
  return to > from && to - from <= MAX_DIGITS && (bytes[from] !== ZERO || to === from + 1)
}

/** Whether a literal is in the bytes, at `at`. No literal is empty. */
function isSame(bytes: Buffer, at: number, literals: Buffer, from: number, to: number): boolean {
  if (bytes[at] !== literals[from] || bytes[at + to - from - 1] !== literals[to - 1]) return false
  if (to - from >= MIN_NATIVE_BYTES) return bytes.compare(literals, from, to, at, at + to - from) === 0
  for (let i = from, j = at; i < to; i++, j++) if (literals[i] !== bytes[j]) return false
  return true
}
