import type { CallerDigest } from '../engine/caller-digest.ts'
import type { KnownRule } from './caller-ids.ts'

/** Of a value, the mark of a cut included. */
const MAX_CHARACTERS = 128
/** For the values of one caller. Enough for 32 keys, the most that a rule can have, with the 16 digits of a digest each. */
const ROOM = 576
const CUT = 0x2026 // …

/** The values of callers, one after the other; those of caller i begin at `starts[i]`. Each value is its length and so many UTF-16 code units. */
export interface PackedTexts {
  readonly starts: Uint32Array
  readonly units: Uint16Array
}

/** The values of callers as operators may see them, in memory of a fixed size: credentials are digests, and long values are cut. */
export class ValueTexts {
  /** Copies: a part of a text would keep all of the text in memory. */
  readonly #units: Uint16Array
  readonly #lengths: Uint16Array
  readonly #callerDigest: CallerDigest

  constructor(slots: number, callerDigest: CallerDigest) {
    this.#units = new Uint16Array(slots * ROOM)
    this.#lengths = new Uint16Array(slots)
    this.#callerDigest = callerDigest
  }

  /** The values begin at `from`. */
  write(slot: number, { credentials }: KnownRule, values: readonly string[], from: number): void {
    const units = this.#units
    const most = Math.min(MAX_CHARACTERS, Math.floor(ROOM / credentials.length) - 1)
    let at = slot * ROOM
    for (let k = 0; k < credentials.length; k++) {
      const value = values[from + k]!
      const text = credentials[k] ? this.#callerDigest([value]) : value
      const isCut = text.length > most
      const kept = isCut ? most - 1 : text.length
      units[at++] = isCut ? most : kept
      for (let i = 0; i < kept; i++) units[at++] = text.charCodeAt(i)
      if (isCut) units[at++] = CUT
    }
    this.#lengths[slot] = at - slot * ROOM
  }

  /** A copy of the first so many slots. */
  packed(slots: number): PackedTexts {
    const lengths = this.#lengths.subarray(0, slots)
    const units = new Uint16Array(lengths.reduce((sum, length) => sum + length, 0))
    const starts = new Uint32Array(slots)
    let at = 0
    for (const [slot, length] of lengths.entries()) {
      units.set(this.#units.subarray(slot * ROOM, slot * ROOM + length), at)
      starts[slot] = at
      at += length
    }
    return { starts, units }
  }

  clear(): void {
    this.#units.fill(0)
  }
}

/** The values of a caller, by the rule's keys. */
export function valuesAt({ starts, units }: PackedTexts, caller: number, limitKeys: readonly string[]): Record<string, string> {
  let at = starts[caller]!
  const entries = limitKeys.map((key): [string, string] => {
    const from = at + 1
    at = from + units[at]!
    return [key, String.fromCharCode(...units.subarray(from, at))]
  })
  return Object.fromEntries(entries)
}
