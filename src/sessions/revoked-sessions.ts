import { acquire, ownerOf, release } from '../memory/shared-lock.ts'
import type { Logouts } from './session-cookies.ts'

/** Logouts remembered at once. If more sessions log out within one session lifetime, unrelated sessions are logged out with them. */
const CAPACITY = 1024
const ID_WORDS = 4
const ENTRY_WORDS = ID_WORDS + 2

const LOCK = 0
const COUNT = 1
const FIRST_ENTRY = 4
const FLOOR = 1 // an index into the doubles

/**
 * Sessions that logged out, kept in memory shared by all threads until they would have expired anyway. The memory is a ring: when an entry must be
 * overwritten, every session that expires no later than it counts as logged out, so that the overwritten session cannot become valid again.
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
    // The count is stored last, so a writer that dies leaves no partial entry. It stays below twice the capacity and therefore never overflows.
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

  /** Releases the lock if a dead thread held it. */
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

/** Returns an index into the doubles. It is whole because every entry begins at an even word. */
function expiryAt(at: number): number {
  return (at + ID_WORDS) / 2
}
