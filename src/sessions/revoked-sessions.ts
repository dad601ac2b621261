import { acquire, ownerOf, release } from '../memory/shared-lock.ts'
import type { Logouts } from './session-cookies.ts'

/** As many as may log out within the life of a session before strangers are logged out with them. */
const CAPACITY = 1024
const ID_WORDS = 4
const ENTRY_WORDS = ID_WORDS + 2

const LOCK = 0
const COUNT = 1
const FIRST_ENTRY = 4
const FLOOR = 1 // as a double

/**
 * Sessions that logged out, in memory that all threads share, each until it would have ended anyway. A ring: where one
 * must go early, all sessions that end no later go with it, for it must not come to life again.
 */
export class RevokedSessions implements Logouts {
  readonly #words: Int32Array
  readonly #doubles: Float64Array
  readonly #owner: number

  constructor(buffer: SharedArrayBuffer, owner: number) {
    this.#words = new Int32Array(buffer)
    this.#doubles = new Float64Array(buffer)
    this.#owner = owner
  }

  add(id: Buffer, expiresAtS: number): void {
    const words = this.#words
    acquire(words, LOCK, this.#owner)
    const count = words[COUNT]!
    const at = entryAt(count % CAPACITY)
    if (count >= CAPACITY) this.#doubles[FLOOR] = Math.max(this.#doubles[FLOOR]!, this.#doubles[expiryAt(at)]!)
    for (let i = 0; i < ID_WORDS; i++) words[at + i] = id.readInt32LE(i * 4)
    this.#doubles[expiryAt(at)] = expiresAtS
    // Last: an entry counts when it is whole, also when its writer dies. Kept from growing for ever.
    Atomics.store(words, COUNT, count + 1 < 2 * CAPACITY ? count + 1 : CAPACITY)
    release(words, LOCK)
  }

  has(id: Buffer, expiresAtS: number): boolean {
    if (expiresAtS <= this.#doubles[FLOOR]!) return true
    const words = this.#words
    const count = Math.min(Atomics.load(words, COUNT), CAPACITY)
    for (let entry = 0; entry < count; entry++) {
      const at = entryAt(entry)
      let i = 0
      while (i < ID_WORDS && words[at + i] === id.readInt32LE(i * 4)) i++
      if (i === ID_WORDS) return true
    }
    return false
  }

  /** Frees what a dead thread held. */
  forgetWorker(owner: number): void {
    if (ownerOf(this.#words, LOCK) === owner) release(this.#words, LOCK)
  }
}

export function newRevokedBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer((FIRST_ENTRY + CAPACITY * ENTRY_WORDS) * 4)
}

function entryAt(entry: number): number {
  return FIRST_ENTRY + entry * ENTRY_WORDS
}

/** As a double's index; entries begin on an even word. */
function expiryAt(at: number): number {
  return (at + ID_WORDS) / 2
}
