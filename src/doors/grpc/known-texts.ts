/** So many at a time, and none longer: beyond that, decoding costs little by comparison. */
const SLOTS = 64
const MAX_BYTES = 64

/** Texts that callers send again and again, such as domains and the keys of descriptors. One that is known by its bytes needs no decoding and no memory. */
export class KnownTexts {
  readonly #texts: string[] = new Array(SLOTS).fill('')

  /** The text that these bytes are in UTF-8. */
  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from
    if (length === 0 || length > MAX_BYTES) return bytes.toString('utf8', from, to)
    const slot = (bytes[from]! + bytes[to - 1]! + length) % SLOTS
    const known = this.#texts[slot]!
    if (known.length === length && isWritten(known, bytes, from)) return known
    const text = bytes.toString('utf8', from, to)
    // As long as its bytes: ASCII, which can be told by its bytes.
    if (text.length === length) this.#texts[slot] = text
    return text
  }
}

/** Whether each character is the byte at its place. */
function isWritten(text: string, bytes: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[from + i]) return false
  return true
}
