export type Charset = 'utf8' | 'latin1'

/** Number of UTF-16 units of a string that are kept. A longer number is not accepted in requests. */
const CAPTURED_UNITS = 256

/** The name, string or number that a scanner is reading: its size, its first units, and a character that was cut off at the end of a piece. */
export class JsonString {
  /** Code points after decoding escapes. The low half of a surrogate pair is not counted, as in `characters` of `dialects/dialect.ts`. */
  characters = 0
  /** Number of characters that JSON.stringify would write, without the quotes. */
  writtenCharacters = 0
  /** Bytes of the whole text so far that continue a character instead of beginning one. */
  continuationBytes = 0
  readonly #plain: Uint8Array
  /** Bytes that hold the whole string so far, one for each unit, from this index on; undefined if the units are captured. They are the caller's. */
  #run: Uint8Array | undefined
  #runFrom = 0
  /** An array that grows, because most strings need none of it. */
  readonly #captured: number[] = []
  /** Length in UTF-16 units; above CAPTURED_UNITS it may be too low. */
  #length = 0
  /** Whether the last unit was an escaped first half of a surrogate pair. */
  #isAfterHigh = false
  /** State within a character beyond ASCII: how many bytes are missing, the range of the next byte, and the value so far. */
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
    this.#run = undefined
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
    // The caller may reuse the bytes before the rest of the string comes: behind the end of a piece, or behind an escape, in which a piece may end.
    if (at === to || bytes[at] !== QUOTE) this.#captureRun()
    return at
  }

  /** Reads text that is not JSON and only counts its characters. */
  skipText(bytes: Uint8Array, from: number, to: number): number {
    if (this.#plain === PLAIN_LATIN1) return to
    let at = this.#missing > 0 ? this.#readCharacter(bytes, from, to) : from
    while (at < to) {
      while (at < to && bytes[at]! < 0x80) at++
      if (at < to) at = this.#readCharacter(bytes, at, to)
    }
    return to
  }

  /** Returns false if the number is too long. */
  addNumber(bytes: Uint8Array, from: number, to: number): boolean {
    this.#capture(bytes, from, to)
    return this.isCaptured
  }

  addEscaped(unit: number): void {
    const isLow = (unit & 0xfc00) === 0xdc00
    if (!isLow) this.characters++
    // JSON.stringify writes both halves as one character, but the first half was counted as an escape of six.
    this.writtenCharacters += isLow && this.#isAfterHigh ? 1 - ESCAPE_CHARACTERS : writtenUnit(unit)
    this.#isAfterHigh = (unit & 0xfc00) === 0xd800
    this.#captureUnit(unit)
  }

  /** Length in UTF-16 units. */
  get length(): number {
    return this.#length
  }

  /** Whether all units are kept. */
  get isCaptured(): boolean {
    return this.#length <= CAPTURED_UNITS
  }

  /** Returns the text, or undefined if it is longer than 256 UTF-16 units. */
  text(): string | undefined {
    return this.isCaptured ? this.beginning() : undefined
  }

  /** Returns the first 256 UTF-16 units. */
  beginning(): string {
    this.#captureRun()
    return String.fromCharCode(...this.#captured.slice(0, Math.min(this.#length, CAPTURED_UNITS)))
  }

  /** Returns a number that equal texts have in common. */
  hash(): number {
    const run = this.#run
    const count = Math.min(this.#length, CAPTURED_UNITS)
    let hash = count
    if (run === undefined) for (let i = 0; i < count; i++) hash = (Math.imul(hash, 31) + this.#captured[i]!) | 0
    else for (let i = this.#runFrom; i < this.#runFrom + count; i++) hash = (Math.imul(hash, 31) + run[i]!) | 0
    return hash >>> 0
  }

  numberValue(): number {
    let value = 0
    for (let i = 0; i < this.#length; i++) {
      const digit = this.#captured[i]! - DIGIT_0
      if (digit < 0 || digit > 9 || i === EXACT_DIGITS) return Number(this.text())
      value = value * 10 + digit
    }
    return value
  }

  /** The first unit, in lower case. */
  get initial(): number {
    return inLowerCase(this.#run === undefined ? this.#captured[0]! : this.#run[this.#runFrom]!)
  }

  equals(units: Uint16Array): boolean {
    if (units.length !== this.#length) return false
    const run = this.#run
    if (run === undefined) {
      for (let i = 0; i < units.length; i++) if (units[i] !== this.#captured[i]) return false
    } else {
      const from = this.#runFrom
      for (let i = 0; i < units.length; i++) if (units[i] !== run[from + i]) return false
    }
    return true
  }

  /** Compares without regard to case, as Go's JSON reader does for names. `units` must be in lower case. */
  equalsInAnyCase(units: Uint16Array): boolean {
    if (units.length !== this.#length) return false
    this.#captureRun()
    for (let i = 0; i < units.length; i++) if (units[i] !== inLowerCase(this.#captured[i]!)) return false
    return true
  }

  #addRun(bytes: Uint8Array, from: number, to: number): void {
    this.characters += to - from
    this.writtenCharacters += to - from
    this.#isAfterHigh = false
    if (this.#length === 0) {
      // Most strings are a single run, and most of those are only counted.
      this.#run = bytes
      this.#runFrom = from
      this.#length = to - from
    } else if (this.#length <= CAPTURED_UNITS) this.#capture(bytes, from, to)
  }

  /** Reads a character beyond ASCII. Invalid UTF-8 counts as U+FFFD by the rules of the WHATWG decoder, as in `Buffer.toString`. */
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

  #captureRun(): void {
    const run = this.#run
    if (run === undefined) return
    const length = this.#length
    this.#run = undefined
    this.#length = 0
    this.#capture(run, this.#runFrom, this.#runFrom + length)
  }

  #capture(bytes: Uint8Array, from: number, to: number): void {
    this.#captureRun()
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
    this.#captureRun()
    if (this.#length < CAPTURED_UNITS) this.#captured[this.#length] = unit
    this.#length++
  }
}

/** Returns the UTF-16 units of a name or word, to compare strings with. */
export function unitsOf(text: string): Uint16Array {
  const units = new Uint16Array(text.length)
  for (let i = 0; i < text.length; i++) units[i] = text.charCodeAt(i)
  return units
}

const REPLACEMENT = 0xfffd
const QUOTE = 0x22
const DIGIT_0 = 0x30
/** A number of so many digits is exact however it is computed. */
const EXACT_DIGITS = 15
const ESCAPE_CHARACTERS = 6
const SHORT_ESCAPES = [0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x22, 0x5c]

/** Length of a single unit as JSON.stringify writes it. */
function writtenUnit(unit: number): number {
  if (SHORT_ESCAPES.includes(unit)) return 2
  return unit < 0x20 || (unit & 0xf800) === 0xd800 ? ESCAPE_CHARACTERS : 1
}

/** Bytes that represent themselves in a string: all but controls, the quote and the backslash; in UTF-8, only ASCII. */
const PLAIN_LATIN1 = Uint8Array.from({ length: 256 }, (_, byte) => (byte < 0x20 || byte === 0x22 || byte === 0x5c ? 0 : 1))
const PLAIN_UTF8 = PLAIN_LATIN1.map((isPlain, byte) => (byte < 0x80 ? isPlain : 0))

/** Converts ASCII letters, and the two others that Unicode folds to ASCII: the long s and the Kelvin sign. */
function inLowerCase(unit: number): number {
  if (unit >= 0x41 && unit <= 0x5a) return unit | 0x20
  if (unit === 0x17f) return 0x73
  return unit === 0x212a ? 0x6b : unit
}
