/** A shorter run of characters that base64 has costs little. */
const MEDIA_CHARACTERS = 256
/** The first characters of a run are not sorted by their kind: words are no longer, and the rest of a long one is like them. */
const UNSORTED = 64
/** Ids of tokens are whole numbers, too, and nearly all of them are longer. */
const SHORT_NUMBER = 4

/**
 * The size of bytes of which nothing else is known, by which their cost is estimated. It leaves out what is no text in the JSON of known APIs: long base64, which is
 * a picture, sound or a signature, and numbers outside of strings, such as those of vectors and log probabilities.
 */
export class TextSize {
  #bytes = 0
  /** All bytes, and those among them that no text has. */
  #all = 0
  #controls = 0
  /** Length of the run of characters of base64 and numbers up to the last byte, and how many of it are of each kind. */
  #run = 0
  readonly #kinds = [0, 0, 0, 0, 0]
  #traits = 0
  /** Bytes outside of strings that are left out if a number follows: a separator, and white space. */
  #pending = 0
  #mayBeNumber = false
  #isInString = false
  /** How many more characters belong to an escape, or UNKNOWN_ESCAPE. */
  #escape = 0

  push(bytes: Uint8Array, from = 0, to = bytes.length): void {
    this.#all += to - from
    let at = from
    while (at < to) {
      if (this.#escape !== 0) this.#readEscape(bytes[at++]!)
      else {
        if (this.#isInString && this.#run === 0) at = this.#readWords(bytes, at, to)
        at = this.#readRun(bytes, at, to)
        if (at < to && this.#escape === 0) this.#readOther(bytes[at++]!)
      }
    }
  }

  add(other: TextSize): void {
    this.#bytes += other.bytes
    this.#all += other.#all
  }

  get bytes(): number {
    return this.#isNumber() ? this.#bytes : this.#bytes + this.#pending + (this.#isMedia() ? 0 : this.#run)
  }

  /** All bytes, whatever they are. */
  get allBytes(): number {
    return this.#all
  }

  /** Whether the bytes are no text, nor JSON: sound, a picture or an archive has many that those cannot have. */
  get isBinary(): boolean {
    return this.#controls * BYTES_PER_CONTROL > this.#all
  }

  /** Reads what strings nearly always contain, up to their end, an escape or a long run. */
  #readWords(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    let start = from
    for (; at < to; at++) {
      const traits = TRAITS[bytes[at]!]!
      if ((traits & IN_RUN) === 0) {
        if ((traits & ENDS_STRING) !== 0) break
        start = at + 1
      } else if ((traits & BEGINS_ESCAPE) !== 0 || at - start === UNSORTED) break
    }
    this.#bytes += start - from
    this.#run = at - start
    return at
  }

  /** Reads characters of base64 and numbers, up to another one or behind a backslash. */
  #readRun(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    let found = 0
    while (at < to) {
      const traits = TRAITS[bytes[at]!]!
      if ((traits & IN_RUN) === 0) break
      at++
      found |= traits
      if (this.#run + at - from > UNSORTED) this.#kinds[traits & KIND]!++
      if ((traits & BEGINS_ESCAPE) !== 0) {
        this.#escape = UNKNOWN_ESCAPE
        break
      }
    }
    this.#run += at - from
    this.#traits |= found
    return at
  }

  #readEscape(byte: number): void {
    if (this.#escape !== UNKNOWN_ESCAPE) {
      this.#escape--
      this.#run++
    } else if (byte === QUOTE) {
      this.#escape = 0
      this.#endRun()
      this.#bytes++
    } else {
      // In base64, slashes and line ends may be escaped, also twice, and plus signs may be written by their codes.
      this.#escape = byte === LETTER_U ? UNICODE_DIGITS : 0
      if (byte === LETTER_U || byte === BACKSLASH) this.#kinds[SIGN]!++
      this.#run++
    }
  }

  #readOther(byte: number): void {
    if (this.#run > 0) this.#endRun()
    if (this.#isInString) {
      this.#bytes++
      if ((TRAITS[byte]! & ENDS_STRING) !== 0) this.#isInString = false
      return
    }
    const traits = TRAITS[byte]!
    if ((traits & SPACE) !== 0) {
      if (this.#bytes > 0) this.#pending++
      return
    }
    const isSeparator = (traits & SEPARATOR) !== 0
    this.#bytes += this.#pending + (isSeparator ? 0 : 1)
    this.#pending = isSeparator ? 1 : 0
    this.#mayBeNumber = isSeparator
    if (byte === QUOTE) this.#isInString = true
    else if ((traits & CONTROL) !== 0) this.#controls++
  }

  #endRun(): void {
    this.#bytes = this.bytes
    if (this.#kinds[SIGN]! > 0 || this.#run > UNSORTED) this.#kinds.fill(0)
    this.#pending = 0
    this.#run = 0
    this.#traits = 0
    this.#mayBeNumber = false
  }

  /** A number of JSON that may be an id of a token is none. */
  #isNumber(): boolean {
    if (!this.#mayBeNumber || this.#run === 0 || (this.#traits & NO_NUMBER) !== 0) return false
    return this.#run <= SHORT_NUMBER || (this.#traits & FRACTION) !== 0
  }

  /**
   * Random base64 has four letters of either case for three digits, and a sign of each kind among 64 characters. Quiet sound is mostly its A's and slashes.
   * Words without spaces are of one case, or have other characters between them.
   */
  #isMedia(): boolean {
    if (this.#run < MEDIA_CHARACTERS) return false
    const [, upper, lower, digits, signs] = this.#kinds as [number, number, number, number, number]
    const sorted = this.#run - UNSORTED
    return Math.max(upper, lower, digits) * 5 < sorted * 3 && signs * 16 < sorted
  }
}

// Kinds of the characters in a run, in the lowest bits.
const KIND = 7
const UPPER = 1
const LOWER = 2
const DIGIT = 3
const SIGN = 4
// Traits of bytes.
const IN_RUN = 8
const NO_NUMBER = 16
const FRACTION = 32
const SPACE = 64
const SEPARATOR = 128
const CONTROL = 256
const BEGINS_ESCAPE = 512
/** No string of JSON goes on behind the end of a line. */
const ENDS_STRING = 1024

const TRAITS = Uint16Array.from({ length: 256 }, (_, byte) => traitsOf(String.fromCharCode(byte)))

function traitsOf(letter: string): number {
  if (/[0-9]/.test(letter)) return IN_RUN | DIGIT
  if (/[eE.]/.test(letter)) return IN_RUN | FRACTION | (letter === 'e' ? LOWER : letter === 'E' ? UPPER : SIGN)
  if (/[+-]/.test(letter)) return IN_RUN | SIGN
  if (letter === '\\') return IN_RUN | NO_NUMBER | BEGINS_ESCAPE
  if (/[A-Za-z_=/]/.test(letter)) return IN_RUN | NO_NUMBER | kindOf(letter)
  if (letter === '"') return ENDS_STRING
  if (/[\r\n]/.test(letter)) return SPACE | ENDS_STRING
  if (/[ \t]/.test(letter)) return SPACE
  if (/[,:[]/.test(letter)) return SEPARATOR
  return letter < '\t' && letter !== '\0' ? CONTROL : letter > '\r' && letter < ' ' && letter !== '\x1b' ? CONTROL : 0
}

function kindOf(letter: string): number {
  if (/[B-Z]/.test(letter)) return UPPER
  if (/[a-z]/.test(letter)) return LOWER
  return letter === '_' ? SIGN : 0
}

/** A byte in nine or ten of what is compressed is such a control character. */
const BYTES_PER_CONTROL = 64
const UNICODE_DIGITS = 4
const UNKNOWN_ESCAPE = 5
const LETTER_U = 0x75
const BACKSLASH = 0x5c
const QUOTE = 0x22
