import type { UnknownCaller, VerifiedCaller } from '../../request/caller.ts'
import { WrongSecrets } from '../../sessions/wrong-secrets.ts'
import { hasKeyForm, keyDigest } from './issued-key.ts'
import {
  DIGEST,
  DIGEST_WORDS,
  EXPIRES,
  FREE,
  GENERATION,
  GONE,
  ID_HIGH,
  ID_LOW,
  INDEX_STATE,
  IS_LOADED,
  type KeyMemory,
  LABELS,
  loadFloat,
  RECORD_WORDS,
  REVOKED_BIT,
  SIZE_MASK,
  TEXT_BYTES,
  TEXT_HEAD_WORDS,
  TEXT_NUMBER,
} from './key-memory.ts'
import { recordId } from './key-table.ts'
import { baseOf, homeOf } from './shared-key-index.ts'

/** Unknown keys from one address within a minute that are still called unknown; further ones are `busy`. */
export const MAX_GUESSES = 60
/** Label sets that a worker keeps decoded: at most twice as many. */
const MAX_DECODED = 4096

const MALFORMED: UnknownCaller = { problem: 'malformed' }
const UNAVAILABLE: UnknownCaller = { problem: 'keys_unavailable' }
const UNKNOWN: UnknownCaller = { problem: 'unknown_key' }
const REVOKED: UnknownCaller = { problem: 'revoked' }
const EXPIRED: UnknownCaller = { problem: 'expired' }
const BUSY: UnknownCaller = { problem: 'busy' }

/**
 * A worker's view of the issued keys. It finds a key in about two microseconds, without waiting for anybody.
 *
 * The time that a search takes depends on the digest of a credential alone. Somebody who guesses cannot choose digests that are gradually more alike to that
 * of a real key, so it does not matter that the comparison ends at the first difference.
 */
export class IssuedKeys {
  readonly #header: Int32Array
  readonly #index: Int32Array
  readonly #records: Int32Array
  readonly #texts: Int32Array
  readonly #guesses: WrongSecrets
  readonly #digest = new Int32Array(DIGEST_WORDS)
  /** Label sets by the numbers of their texts: those that were used lately, and those before. */
  #decoded = new Map<number, ReadonlyMap<string, string>>()
  #decodedBefore = new Map<number, ReadonlyMap<string, string>>()

  constructor(memory: KeyMemory) {
    this.#header = new Int32Array(memory.header)
    this.#index = new Int32Array(memory.index)
    this.#records = new Int32Array(memory.records)
    this.#texts = new Int32Array(memory.texts)
    this.#guesses = new WrongSecrets(memory.guesses)
  }

  /** Whether the keys of the last run, or of the fleet, have arrived. Until then no key is known. */
  get isLoaded(): boolean {
    return Atomics.load(this.#header, IS_LOADED) === 1
  }

  /** `addressOf` returns the client's address, and is called only for an unknown key, which counts as its guess. `nowMs` is on the monotonic clock, `wallMs` is Unix time. */
  find(credential: string, addressOf: () => string | undefined, nowMs: number, wallMs: number): VerifiedCaller | UnknownCaller {
    if (!hasKeyForm(credential)) return MALFORMED
    const digest = keyDigest(credential)
    for (let i = 0; i < DIGEST_WORDS; i++) this.#digest[i] = digest.readInt32LE(i * 4)
    const found = this.#search(wallMs)
    if (found !== undefined) return found
    if (!this.isLoaded) return UNAVAILABLE
    return this.#guesses.add(addressOf(), nowMs) > MAX_GUESSES ? BUSY : UNKNOWN
  }

  /** Returns undefined if there is no such key. Starts again whenever the main thread has changed something under its eyes. */
  #search(wallMs: number): VerifiedCaller | UnknownCaller | undefined {
    for (;;) {
      const state = Atomics.load(this.#header, INDEX_STATE)
      const found = this.#searchIndex(state, wallMs)
      if (found === 'changed') continue
      if (found !== undefined || Atomics.load(this.#header, INDEX_STATE) === state) return found
    }
  }

  #searchIndex(state: number, wallMs: number): VerifiedCaller | UnknownCaller | 'changed' | undefined {
    const base = baseOf(state, this.#index.length)
    const mask = (1 << (state & SIZE_MASK)) - 1
    for (let probe = 0, at = homeOf(this.#digest[0]!, state); probe <= mask; probe++, at = (at + 1) & mask) {
      const number = Atomics.load(this.#index, base + at)
      if (number === FREE) return undefined
      if (number === GONE) continue
      const record = (number - 1) * RECORD_WORDS
      const generation = Atomics.load(this.#records, record + GENERATION)
      const found = this.#isWanted(record) ? this.#read(record, generation, wallMs) : undefined
      if (Atomics.load(this.#records, record + GENERATION) !== generation) return 'changed'
      if (found !== undefined) return found
      if (Atomics.load(this.#index, base + at) !== number) return 'changed'
    }
    return undefined
  }

  #isWanted(record: number): boolean {
    for (let i = 0; i < DIGEST_WORDS; i++) {
      if (Atomics.load(this.#records, record + DIGEST + i) !== this.#digest[i]) return false
    }
    return true
  }

  /** What this returns counts only if the generation is still the same afterwards. */
  #read(record: number, generation: number, wallMs: number): VerifiedCaller | UnknownCaller {
    const high = Atomics.load(this.#records, record + ID_HIGH)
    if ((high & REVOKED_BIT) !== 0) return REVOKED
    if (loadFloat(this.#records, record + EXPIRES) <= wallMs) return EXPIRED
    const id = recordId(high, Atomics.load(this.#records, record + ID_LOW))
    const labels = this.#labels(record, generation)
    return labels === undefined ? UNKNOWN : { id: `key:${id}`, labels, claims: undefined }
  }

  /** Returns undefined if the text was overwritten meanwhile. */
  #labels(record: number, generation: number): ReadonlyMap<string, string> | undefined {
    const place = Atomics.load(this.#records, record + LABELS)
    const number = Atomics.load(this.#texts, place + TEXT_NUMBER)
    const known = this.#decoded.get(number)
    if (known !== undefined) return known
    const before = this.#decodedBefore.get(number) ?? this.#decode(record, generation, place)
    if (before === undefined) return undefined
    if (this.#decoded.size >= MAX_DECODED) {
      this.#decodedBefore = this.#decoded
      this.#decoded = new Map()
    }
    this.#decoded.set(number, before)
    return before
  }

  #decode(record: number, generation: number, place: number): ReadonlyMap<string, string> | undefined {
    const bytes = Atomics.load(this.#texts, place + TEXT_BYTES)
    const start = place + TEXT_HEAD_WORDS
    const words = new Int32Array(Math.ceil(Math.max(0, Math.min(bytes, (this.#texts.length - start) * 4)) / 4))
    for (let i = 0; i < words.length; i++) words[i] = Atomics.load(this.#texts, start + i)
    if (Atomics.load(this.#records, record + GENERATION) !== generation) return undefined
    const text = Buffer.from(words.buffer, 0, bytes).toString()
    return new Map(Object.entries(JSON.parse(text) as Record<string, string>))
  }
}
