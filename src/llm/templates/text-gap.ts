import { ESCAPED_UNITS, hexValue } from '../json-escape.ts'

/** Reads the contents of JSON strings. */
export class TextGap {
  /** Code points of the last text, as in `text-size.ts`. */
  characters = 0
  /** The texts that were read since `begin`. Templates that begin alike have them in the same places, and they may be long: each is read once. */
  #known = 0
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  readonly #sizes: number[] = []

  /** Forgets what was read: other bytes may be there now. */
  begin(): void {
    this.#known = 0
  }

  /**
   * Reads a text up to the closing quote and returns the index of that. Returns -1 where it is missing, or JSON or UTF-8 is broken.
   * `index`: how many texts come before it in the event; they were read before.
   */
  read(index: number, bytes: Buffer, from: number, to: number): number {
    if (index < this.#known && this.#starts[index] === from) {
      this.characters = this.#sizes[index]!
      return this.#ends[index]!
    }
    const end = this.#scan(bytes, from, to)
    this.#starts[index] = from
    this.#ends[index] = end
    this.#sizes[index] = this.characters
    this.#known = index + 1
    return end
  }

  #scan(bytes: Buffer, from: number, to: number): number {
    let at = from
    // Bytes that do not begin a character, or only its second half.
    let silent = 0
    while (at < to) {
      const byte = bytes[at]!
      if (PLAIN[byte] === 1) at++
      else if (byte === QUOTE) {
        this.characters = at - from - silent
        return at
      } else {
        const next = byte === BACKSLASH ? afterEscape(bytes, at, to) : afterCharacter(bytes, at, to)
        if (next < 0) return -1
        silent += next - at - (isLowHalf(bytes, at) ? 0 : 1)
        at = next
      }
    }
    return -1
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
/** ASCII that stands for itself in a string. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x20 && byte < 0x80 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0))

function afterEscape(bytes: Buffer, at: number, to: number): number {
  if (at + 1 >= to) return -1
  if (bytes[at + 1] !== LETTER_U) return ESCAPED_UNITS[bytes[at + 1]!] === 0 ? -1 : at + 2
  if (at + 6 > to) return -1
  for (let i = at + 2; i < at + 6; i++) if (hexValue(bytes[i]!) < 0) return -1
  return at + 6
}

/** The escape of the second half of a surrogate pair: `\udc00` up to `\udfff`. */
function isLowHalf(bytes: Buffer, at: number): boolean {
  return bytes[at + 1] === LETTER_U && bytes[at] === BACKSLASH && (bytes[at + 2]! | 0x20) === 0x64 && hexValue(bytes[at + 3]!) >= 0xc
}

/** RFC 3629 4: a character beyond ASCII. */
function afterCharacter(bytes: Buffer, at: number, to: number): number {
  const lead = bytes[at]!
  const size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0
  if (size === 0 || at + size > to) return -1
  const second = bytes[at + 1]!
  const lowest = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80
  const highest = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf
  if (second < lowest || second > highest) return -1
  for (let i = at + 2; i < at + size; i++) if ((bytes[i]! & 0xc0) !== 0x80) return -1
  return at + size
}
