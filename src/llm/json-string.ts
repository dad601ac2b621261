export type Charset = 'utf8' | 'latin1'

/** How many UTF-16 units of a string are kept; no number may be longer. */
const CAPTURED_UNITS = 256

/** The name, string or number that a scanner reads: its size, its start, and a character that the end of a piece cut off. */
export class JsonString {
  /** Code points, escapes decoded. The low half of a pair is not counted, as in `dialects/dialect.ts`. */
  characters = 0
  /** The same as JSON.stringify would write it, without its quotes. */
  writtenCharacters = 0
  /** Bytes of the whole text so far that do not begin a character. */
  continuationBytes = 0
  readonly #plain: Uint8Array
  readonly #captured = new Uint16Array(CAPTURED_UNITS)
  /** In UTF-16 units; above CAPTURED_UNITS it may be too low. */
  #length = 0
  /** The last unit was the escape of a surrogate pair's first half. */
  #isAfterHigh = false
  /** Of a character beyond ASCII: how many bytes are missing, the range of the next, and the value so far. */
  #missing = 0
  #lowest = 0
  #highest = 0
  #point = 0

  constructor(charset: Charset) {
    this.#plain = charset === 'utf8' ? PLAIN_UTF8 : PLAIN_LATIN1
  }

  begin(): void {
    this.characters = 0
    this.writtenCharacters = 0
    this.#length = 0
    this.#isAfterHigh = false
  }

  /** Reads up to a quote, a backslash or a byte that no string may contain, and returns its index. */
  read(bytes: Uint8Array, from: number, to: number): number {
    const plain = this.#plain
    let at = this.#missing > 0 ? this.#readCharacter(bytes, from, to) : from
    while (at < to) {
      const start = at
      while (at < to && plain[bytes[at]!] === 1) at++
      if (at > start) this.#addRun(bytes, start, at)
      if (at === to || bytes[at]! < 0x80) break
      at = this.#readCharacter(bytes, at, to)
    }
    return at
  }

  /** Reads text that is not JSON: only counts characters. */
  skipText(bytes: Uint8Array, from: number, to: number): number {
    if (this.#plain === PLAIN_LATIN1) return to
    let at = this.#missing > 0 ? this.#readCharacter(bytes, from, to) : from
    while (at < to) {
      while (at < to && bytes[at]! < 0x80) at++
      if (at < to) at = this.#readCharacter(bytes, at, to)
    }
    return to
  }

  /** Returns false where the number is too long. */
  addNumber(bytes: Uint8Array, from: number, to: number): boolean {
    this.#capture(bytes, from, to)
    return this.#length <= CAPTURED_UNITS
  }

  addEscaped(unit: number): void {
    const isLow = (unit & 0xfc00) === 0xdc00
    if (!isLow) this.characters++
    // Both halves are written as one character; the first alone was counted as an escape of six.
    this.writtenCharacters += isLow && this.#isAfterHigh ? 1 - ESCAPE_CHARACTERS : writtenUnit(unit)
    this.#isAfterHigh = (unit & 0xfc00) === 0xd800
    this.#captureUnit(unit)
  }

  /** In UTF-16 units. */
  get length(): number {
    return this.#length
  }

  /** Undefined above 256 UTF-16 units. */
  text(): string | undefined {
    return this.#length > CAPTURED_UNITS ? undefined : String.fromCharCode(...this.#captured.subarray(0, this.#length))
  }

  numberValue(): number {
    return Number(this.text())
  }

  equals(units: Uint16Array): boolean {
    if (units.length !== this.#length) return false
    for (let i = 0; i < units.length; i++) if (units[i] !== this.#captured[i]) return false
    return true
  }

  /** Ignores case, as Go's JSON reader does for names. `units` are in lower case. */
  equalsInAnyCase(units: Uint16Array): boolean {
    if (units.length !== this.#length) return false
    for (let i = 0; i < units.length; i++) if (units[i] !== inLowerCase(this.#captured[i]!)) return false
    return true
  }

  #addRun(bytes: Uint8Array, from: number, to: number): void {
    this.characters += to - from
    this.writtenCharacters += to - from
    this.#isAfterHigh = false
    if (this.#length <= CAPTURED_UNITS) this.#capture(bytes, from, to)
  }

  /** A character beyond ASCII. Invalid UTF-8 counts as U+FFFD by the rules of the WHATWG decoder, as in `Buffer.toString`. */
  #readCharacter(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    if (this.#missing === 0) {
      this.characters++
      this.writtenCharacters++
      this.#isAfterHigh = false
      this.#begin(bytes[at++]!)
    }
    for (; this.#missing > 0; this.#missing--) {
      if (at === to) return at
      const byte = bytes[at]!
      if (byte < this.#lowest || byte > this.#highest) {
        this.#missing = 0
        this.#point = REPLACEMENT
        break
      }
      this.#lowest = 0x80
      this.#highest = 0xbf
      this.#point = (this.#point << 6) | (byte & 0x3f)
      this.continuationBytes++
      at++
    }
    this.#capturePoint(this.#point)
    return at
  }

  #begin(lead: number): void {
    this.#lowest = 0x80
    this.#highest = 0xbf
    if (lead >= 0xc2 && lead <= 0xdf) {
      this.#missing = 1
      this.#point = lead & 0x1f
    } else if (lead >= 0xe0 && lead <= 0xef) {
      this.#missing = 2
      this.#point = lead & 0x0f
      if (lead === 0xe0) this.#lowest = 0xa0
      if (lead === 0xed) this.#highest = 0x9f
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      this.#missing = 3
      this.#point = lead & 0x07
      if (lead === 0xf0) this.#lowest = 0x90
      if (lead === 0xf4) this.#highest = 0x8f
    } else this.#point = REPLACEMENT
  }

  #capture(bytes: Uint8Array, from: number, to: number): void {
    const room = CAPTURED_UNITS - this.#length
    const end = to - from <= room ? to : from + room
    for (let at = from, i = this.#length; at < end; at++, i++) this.#captured[i] = bytes[at]!
    this.#length += to - from
  }

  #capturePoint(point: number): void {
    if (point <= 0xffff) return this.#captureUnit(point)
    this.#captureUnit(0xd800 + ((point - 0x10000) >> 10))
    this.#captureUnit(0xdc00 + ((point - 0x10000) & 0x3ff))
  }

  #captureUnit(unit: number): void {
    if (this.#length < CAPTURED_UNITS) this.#captured[this.#length] = unit
    this.#length++
  }
}

/** A name or word to compare with. */
export function unitsOf(text: string): Uint16Array {
  return Uint16Array.from(text, (letter) => letter.charCodeAt(0))
}

const REPLACEMENT = 0xfffd
const ESCAPE_CHARACTERS = 6
const SHORT_ESCAPES = [0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x22, 0x5c]

/** The length of a single unit as JSON.stringify writes it. */
function writtenUnit(unit: number): number {
  if (SHORT_ESCAPES.includes(unit)) return 2
  return unit < 0x20 || (unit & 0xf800) === 0xd800 ? ESCAPE_CHARACTERS : 1
}

/** Bytes that stand for themselves in a string: all but controls, the quote and the backslash; in UTF-8, only ASCII. */
const PLAIN_LATIN1 = Uint8Array.from({ length: 256 }, (_, byte) => (byte < 0x20 || byte === 0x22 || byte === 0x5c ? 0 : 1))
const PLAIN_UTF8 = PLAIN_LATIN1.map((isPlain, byte) => (byte < 0x80 ? isPlain : 0))

/** ASCII, and the two letters beyond it that Unicode folds to ASCII: the long s and the Kelvin sign. */
function inLowerCase(unit: number): number {
  if (unit >= 0x41 && unit <= 0x5a) return unit | 0x20
  if (unit === 0x17f) return 0x73
  return unit === 0x212a ? 0x6b : unit
}
