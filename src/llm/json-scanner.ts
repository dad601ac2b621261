import { type Charset, JsonString } from './json-string.ts'

/**
 * Reads JSON in pieces of any size and builds nothing: time is linear in the bytes, and memory is one number per level of nesting. It accepts exactly
 * what JSON.parse accepts, within its limits; of responses also the numbers that Python's writers add. It never throws: text that is not JSON is still
 * counted in characters, and beyond a limit nothing more is read.
 */
export class JsonScanner {
  readonly #events: JsonEvents
  readonly #limits: ScanLimits
  readonly #string: JsonString
  #state = VALUE
  #isName = false
  /** For each open level: 1 for an object, 0 for a list. */
  readonly #levels: number[] = []
  #depth = 0
  #values = 0
  #bytes = 0
  /** Bytes of white space before and after the value. */
  paddingBytes = 0
  /** Digits read so far of a `\u` escape, and their value. */
  #hexDigits = 0
  #unit = 0
  #numberState = 0
  #literal: JsonLiteral = LITERALS[0]!
  #literalAt = 0

  constructor(events: JsonEvents, limits: ScanLimits, charset: Charset = 'utf8') {
    this.#events = events
    this.#limits = limits
    this.#string = new JsonString(charset)
  }

  /** Whether there were more values, deeper nesting or longer numbers than the limits allow. */
  get isBeyondLimits(): boolean {
    return this.#state === BEYOND
  }

  /** Code points of the whole text so far, whether or not it is JSON, with escapes not decoded. */
  get spelledCharacters(): number {
    return this.#bytes - this.#string.continuationBytes
  }

  push(bytes: Uint8Array, from = 0, to = bytes.length): void {
    this.#bytes += to - from
    let at = from
    while (at < to) {
      switch (this.#state) {
        case STRING:
          at = this.#readString(bytes, at, to)
          break
        case ESCAPE:
          at = this.#readEscape(bytes[at]!, at)
          break
        case UNICODE:
          at = this.#readUnicode(bytes[at]!, at)
          break
        case NUMBER:
          at = this.#readNumber(bytes, at, to)
          break
        case LITERAL:
          at = this.#readLiteral(bytes, at, to)
          break
        case NO_JSON:
          at = this.#string.skipText(bytes, at, to)
          break
        case BEYOND:
          return
        default:
          at = this.#readStructure(bytes, at, to)
      }
    }
  }

  /** Ends the text. Returns whether it was exactly one JSON value. */
  end(): boolean {
    if (this.#state === NUMBER && this.#depth === 0) this.#endNumber()
    return this.#state === WHOLE
  }

  /** Ends a text that was cut off: closes everything that is open, and reports a string with the part that was read. */
  breakOff(): void {
    if (this.#state === NO_JSON || this.#state === BEYOND) return
    const isInString = this.#state === STRING || this.#state === ESCAPE || this.#state === UNICODE
    if (isInString && !this.#isName) this.#events.string(this.#string, false)
    for (; this.#depth > 0; this.#depth--) this.#events.end(false)
    this.#state = NO_JSON
  }

  #readStructure(bytes: Uint8Array, from: number, to: number): number {
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
        if (this.#depth === 0) this.paddingBytes++
        continue
      }
      const state = this.#state
      const isValue = state === VALUE || state === VALUE_OR_END
      switch (byte) {
        case QUOTE:
          this.#isName = state === NAME || state === NAME_OR_END
          if (!this.#isName && !isValue) return this.#fail(at)
          this.#string.begin()
          this.#state = STRING
          return this.#isName || this.#countValue() ? at + 1 : to
        case OPEN_OBJECT:
        case OPEN_LIST:
          if (!isValue) return this.#fail(at)
          if (!this.#countValue() || !this.#open(byte === OPEN_OBJECT)) return to
          break
        case CLOSE_OBJECT:
          if (state !== NAME_OR_END && !(state === AFTER && this.#isInObject())) return this.#fail(at)
          this.#close(state === NAME_OR_END)
          break
        case CLOSE_LIST:
          if (state !== VALUE_OR_END && (state !== AFTER || this.#isInObject())) return this.#fail(at)
          this.#close(state === VALUE_OR_END)
          break
        case COMMA:
          if (state !== AFTER) return this.#fail(at)
          this.#state = this.#isInObject() ? NAME : VALUE
          break
        case COLON:
          if (state !== BEFORE_COLON) return this.#fail(at)
          this.#state = VALUE
          break
        default:
          return isValue ? this.#beginScalar(byte, at, to) : this.#fail(at)
      }
    }
    return to
  }

  /** Begins a number, true, false or null. */
  #beginScalar(byte: number, at: number, to: number): number {
    const isNumber = byte === MINUS || (byte >= DIGIT_0 && byte <= DIGIT_9)
    const literal = isNumber ? undefined : this.#literalWith(byte)
    if (!isNumber && literal === undefined) return this.#fail(at)
    if (!this.#countValue()) return to
    this.#string.begin()
    this.#numberState = BEFORE_NUMBER
    this.#state = isNumber ? NUMBER : LITERAL
    this.#literal = literal ?? this.#literal
    this.#literalAt = 0
    return at
  }

  #literalWith(initial: number): JsonLiteral | undefined {
    const begins = ({ bytes }: JsonLiteral): boolean => bytes[0] === initial
    return LITERALS.find(begins) ?? (this.#limits.isLenient === true ? NUMBER_WORDS.find(begins) : undefined)
  }

  #readString(bytes: Uint8Array, from: number, to: number): number {
    const at = this.#string.read(bytes, from, to)
    if (at === to) return to
    const byte = bytes[at]!
    if (byte === BACKSLASH) this.#state = ESCAPE
    else if (byte !== QUOTE) return this.#fail(at)
    else if (this.#isName) {
      this.#state = BEFORE_COLON
      this.#events.name(this.#string, this.#bytes - (to - at) + 1)
    } else {
      this.#afterValue()
      this.#events.string(this.#string, true)
    }
    return at + 1
  }

  #readEscape(byte: number, at: number): number {
    if (byte === LETTER_U) {
      this.#state = UNICODE
      this.#hexDigits = 0
      this.#unit = 0
      return at + 1
    }
    const unit = ESCAPED_UNITS[byte]!
    if (unit === 0) return this.#fail(at)
    this.#string.addEscaped(unit)
    this.#state = STRING
    return at + 1
  }

  #readUnicode(byte: number, at: number): number {
    const digit = hexValue(byte)
    if (digit < 0) return this.#fail(at)
    this.#unit = this.#unit * 16 + digit
    if (++this.#hexDigits === 4) {
      this.#string.addEscaped(this.#unit)
      this.#state = STRING
    }
    return at + 1
  }

  #readNumber(bytes: Uint8Array, from: number, to: number): number {
    let state = this.#numberState
    let at = from
    for (; at < to; at++) {
      const next = nextInNumber(state, bytes[at]!)
      if (next === 0) break
      state = next
    }
    this.#numberState = state
    if (state === AFTER_MINUS && at < to && this.#limits.isLenient === true && bytes[at] === INFINITY.bytes[0]) {
      this.#literal = INFINITY
      this.#state = LITERAL
    } else if (!this.#string.addNumber(bytes, from, at) && this.#limits.isLenient !== true) this.#state = BEYOND
    else if (at < to && !this.#endNumber()) return this.#fail(at)
    return this.#state === BEYOND ? to : at
  }

  #endNumber(): boolean {
    if (!endsNumber(this.#numberState)) return false
    this.#afterValue()
    this.#events.number(this.#string)
    return true
  }

  #readLiteral(bytes: Uint8Array, from: number, to: number): number {
    const { bytes: word, value } = this.#literal
    for (let at = from; at < to; at++) {
      if (bytes[at] !== word[this.#literalAt]) return this.#fail(at)
      if (++this.#literalAt < word.length) continue
      this.#afterValue()
      this.#events.literal(value)
      return at + 1
    }
    return to
  }

  #isInObject(): boolean {
    return this.#levels[this.#depth - 1] === 1
  }

  #countValue(): boolean {
    if (++this.#values <= this.#limits.values) return true
    this.#state = BEYOND
    return false
  }

  #open(isObject: boolean): boolean {
    if (this.#depth === this.#limits.depth) {
      this.#state = BEYOND
      return false
    }
    this.#levels[this.#depth++] = isObject ? 1 : 0
    this.#state = isObject ? NAME_OR_END : VALUE_OR_END
    this.#events.begin(isObject)
    return true
  }

  #close(isEmpty: boolean): void {
    this.#depth--
    this.#afterValue()
    this.#events.end(isEmpty)
  }

  #afterValue(): void {
    this.#state = this.#depth === 0 ? WHOLE : AFTER
  }

  /** Stops parsing at this byte; from here on, characters are only counted. */
  #fail(at: number): number {
    this.#state = NO_JSON
    return at
  }
}

// States of the scanner: what may come next, or what is being read. These constants are not imported because V8 folds constants of the same module
// into the loops.
const VALUE = 0
const VALUE_OR_END = 1
const NAME = 2
const NAME_OR_END = 3
const BEFORE_COLON = 4
const AFTER = 5
const WHOLE = 6
const STRING = 7
const ESCAPE = 8
const UNICODE = 9
const NUMBER = 10
const LITERAL = 11
const NO_JSON = 12
const BEYOND = 13

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const MINUS = 0x2d
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const LETTER_U = 0x75

/** States within a number (RFC 8259 6). */
const BEFORE_NUMBER = 1
const AFTER_MINUS = 2
const ZERO = 3
const INTEGER = 4
const AFTER_POINT = 5
const FRACTION = 6
const AFTER_E = 7
const AFTER_SIGN = 8
const EXPONENT = 9

const PLUS = 0x2b
const POINT = 0x2e

/** Returns the state after this byte, or 0 if the byte does not belong to the number. */
function nextInNumber(state: number, byte: number): number {
  if (byte >= DIGIT_0 && byte <= DIGIT_9) {
    if (state === INTEGER || state === FRACTION || state === EXPONENT) return state
    if (state <= AFTER_MINUS) return byte === DIGIT_0 ? ZERO : INTEGER
    if (state === AFTER_POINT) return FRACTION
    return state === ZERO ? 0 : EXPONENT
  }
  if (byte === MINUS) return state === BEFORE_NUMBER ? AFTER_MINUS : state === AFTER_E ? AFTER_SIGN : 0
  if (byte === POINT) return state === ZERO || state === INTEGER ? AFTER_POINT : 0
  if (byte === 0x65 || byte === 0x45) return state === ZERO || state === INTEGER || state === FRACTION ? AFTER_E : 0
  return byte === PLUS && state === AFTER_E ? AFTER_SIGN : 0
}

/** Returns whether a number may end in this state. */
function endsNumber(state: number): boolean {
  return state === INTEGER || state === ZERO || state === FRACTION || state === EXPONENT
}

interface JsonLiteral {
  readonly bytes: readonly number[]
  readonly value: boolean | null
}

const LITERALS: readonly JsonLiteral[] = [true, false, null].map((value) => literal(String(value), value))
/** Python writes numbers so that JSON does not have, and log probabilities are among them. They are read as null. */
const INFINITY = literal('Infinity', null)
const NUMBER_WORDS: readonly JsonLiteral[] = [INFINITY, literal('NaN', null)]

function literal(word: string, value: boolean | null): JsonLiteral {
  return { bytes: Array.from(word, (letter) => letter.charCodeAt(0)), value }
}

/** RFC 8259 7: the UTF-16 unit that a letter after a backslash stands for; 0 for `u` and for letters that may not follow a backslash. */
const ESCAPED_UNITS = new Uint16Array(256)
for (const [letter, unit] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED_UNITS[letter!.charCodeAt(0)] = unit!.charCodeAt(0)
}

/** Returns the value of a hexadecimal digit, or -1. */
function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** Callbacks that a scanner makes in the order of the text. A JsonString is valid only during the call. */
export interface JsonEvents {
  /** Reports a name in the current object. `end` is the number of bytes of the text up to and including its closing quote. */
  name(name: JsonString, end: number): void
  /** Reports a string value. `isWhole` is false if the text broke off inside the string. */
  string(string: JsonString, isWhole: boolean): void
  number(number: JsonString): void
  literal(value: boolean | null): void
  begin(isObject: boolean): void
  end(isEmpty: boolean): void
}

interface ScanLimits {
  /** Greatest depth to which objects and lists may be nested. */
  readonly depth: number
  /** Greatest total number of values: strings, numbers, literals, objects and lists. */
  readonly values: number
  /** Whether numbers may be of any length, and NaN or infinite: one that is too long to be kept has the value NaN. */
  readonly isLenient?: boolean
}

/**
 * Limits for requests. The depth exceeds what the parsers of most backends accept, and the number of values exceeds that of any prompt of token ids.
 * Reading two million values takes a fraction of a second.
 */
export const SCAN_LIMITS: ScanLimits = { depth: 1000, values: 2_000_000 }

/** Limits for responses. A client chooses how long a response is, so its usage is found behind any number of values. */
export const RESPONSE_LIMITS: ScanLimits = { depth: 1000, values: Number.POSITIVE_INFINITY, isLenient: true }
