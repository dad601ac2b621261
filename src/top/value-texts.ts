import type { KnownRule } from './caller-ids.ts'

/** Of a value, the mark of a cut included. */
export const MAX_CHARACTERS = 128
/** For the values of one caller. Enough for 32 keys, the most that a rule can have, with the 16 digits of a digest each. */
const ROOM = 576
const CUT = 0x2026 // …

/** The values of callers as operators may see them, in memory of a fixed size: credentials are digests, and long values are cut. */
export class ValueTexts {
  /** Each value is its length and so many UTF-16 code units. A copy: a part of a text would keep all of the text in memory. */
  readonly #units: Uint16Array
  readonly #nameOf: (values: readonly string[]) => string

  constructor(slots: number, nameOf: (values: readonly string[]) => string) {
    this.#units = new Uint16Array(slots * ROOM)
    this.#nameOf = nameOf
  }

  /** The values begin at `from`. */
  write(slot: number, { credentials }: KnownRule, values: readonly string[], from: number): void {
    const units = this.#units
    const most = Math.min(MAX_CHARACTERS, Math.floor(ROOM / credentials.length) - 1)
    let at = slot * ROOM
    for (let k = 0; k < credentials.length; k++) {
      const value = values[from + k]!
      const text = credentials[k] ? this.#nameOf([value]) : value
      const isCut = text.length > most
      const kept = isCut ? most - 1 : text.length
      units[at++] = isCut ? most : kept
      for (let i = 0; i < kept; i++) units[at++] = text.charCodeAt(i)
      if (isCut) units[at++] = CUT
    }
  }

  read(slot: number, { credentials }: KnownRule): string[] {
    let at = slot * ROOM
    return credentials.map(() => {
      const from = at + 1
      at = from + this.#units[at]!
      return String.fromCharCode(...this.#units.subarray(from, at))
    })
  }

  clear(): void {
    this.#units.fill(0)
  }
}
