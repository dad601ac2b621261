import { createHash } from 'node:crypto'
import { ConnectionPlaces, PLACE_WORDS } from '../../listen/connection-slots.ts'
import { acquire, ownerOf, release } from '../../memory/shared-lock.ts'
import { COOLING_WORDS, freeProbesOf } from './cooling-record.ts'

/** Number of backends that have a slot at the same time. */
export const BACKEND_SLOTS = 64
/** Number of models of one backend that cool at the same time. */
export const MODEL_SLOTS = 16
/** Bytes of a model's name that are kept for people to read. Models are told apart by a hash of the whole name. */
export const MODEL_TEXT_BYTES = 64

// The memory is one lock for assigning slots, the slots, and a lane of connection counts for each worker.
const ASSIGN_LOCK = 0
const FIRST_SLOT = 16

/** Words of a slot. Times are 64-bit floats, so they are at even indices. All but the lock are written by the holder of the lock alone. */
export const SLOT = {
  lock: 0,
  /** How many backends have had this slot. 0: none yet. */
  generation: 1,
  /** Whether anything below is not as in a healthy backend. Requests to a healthy one read only this word, and need no lock. */
  isTroubled: 2,
  /** Calls in a row that had no answer, or a 5xx. */
  failures: 3,
  claimedAtMs: 4,
  /** The latest deadline that the backend itself has asked for since its last success. */
  wishedUntilMs: 6,
  identity: 8,
  /** The latest failure, even if the backend has recovered since: its time, and the number of its reason; 0 if there was none. */
  failedAtMs: 12,
  failedBy: 14,
  cooling: 16,
  models: 16 + COOLING_WORDS,
} as const
const IDENTITY_WORDS = 4

/** Words of a model within a slot. It is in use if its cooling has begun. */
export const MODEL = { low: 0, high: 1, wasAnswered: 2, textLength: 3, cooling: 4, text: 4 + COOLING_WORDS } as const
export const MODEL_WORDS = MODEL.text + MODEL_TEXT_BYTES / 4
const SLOT_WORDS = SLOT.models + MODEL_SLOTS * MODEL_WORDS

const PLACES = FIRST_SLOT + BACKEND_SLOTS * SLOT_WORDS
const LANE_WORDS = BACKEND_SLOTS * PLACE_WORDS

export interface NamedBackend {
  readonly name: string
  readonly url: URL
}

/**
 * The slots of backends in shared memory. A backend is known by its name and URL: it keeps its slot, and with it what is known of its health, when the
 * bundle changes or a worker dies. The number of a slot includes its generation, so whoever still has the number of an earlier backend has no effect.
 */
export class BackendSlots {
  readonly words: Int32Array
  readonly floats: Float64Array
  readonly #worker: number
  readonly #owner: number

  /** Workers are numbered from 1; the supervising thread is 0. */
  constructor(buffer: SharedArrayBuffer, worker: number) {
    this.words = new Int32Array(buffer)
    this.floats = new Float64Array(buffer)
    this.#worker = worker
    this.#owner = worker + 1
  }

  /** Gives each backend of a plan its slot: its own if it has one, else a free one, else that of the backend which was in a plan longest ago. */
  claim(backends: readonly NamedBackend[], nowMs: number): ReadonlyMap<string, number> {
    if (backends.length > BACKEND_SLOTS) throw new RangeError(`expected at most ${BACKEND_SLOTS} backends, got ${backends.length}`)
    const identities = backends.map(identityOf)
    const indices = new Int32Array(backends.length)
    const isTaken = new Uint8Array(BACKEND_SLOTS)
    acquire(this.words, ASSIGN_LOCK, this.#owner)
    for (let i = 0; i < identities.length; i++) {
      indices[i] = this.#indexOf(identities[i]!)
      if (indices[i]! >= 0) isTaken[indices[i]!] = 1
    }
    for (let i = 0; i < identities.length; i++) {
      if (indices[i]! < 0) indices[i] = this.#assign(identities[i]!, isTaken)
      this.floats[(firstWord(indices[i]!) + SLOT.claimedAtMs) / 2] = nowMs
    }
    release(this.words, ASSIGN_LOCK)
    return new Map(backends.map(({ name }, i) => [name, this.#numberOf(indices[i]!)]))
  }

  /** Returns the number of the backend's slot, if it has one. */
  slotOf(backend: NamedBackend): number | undefined {
    const index = this.#indexOf(identityOf(backend))
    return index < 0 ? undefined : this.#numberOf(index)
  }

  /** Returns the places for connections to the backend of this slot. Those of an earlier backend count until they are closed. */
  placesOf(slot: number, max: number): ConnectionPlaces {
    const words = this.words.subarray(PLACES)
    return new ConnectionPlaces({ words, laneWords: LANE_WORDS, first: (slot % BACKEND_SLOTS) * PLACE_WORDS }, this.#worker, max)
  }

  /** Locks the slot and returns its first word, or undefined, without a lock, if another backend has the slot now. */
  lock(slot: number): number | undefined {
    const at = firstWord(slot % BACKEND_SLOTS)
    acquire(this.words, at + SLOT.lock, this.#owner)
    if (this.words[at + SLOT.generation] === Math.floor(slot / BACKEND_SLOTS)) return at
    release(this.words, at + SLOT.lock)
    return undefined
  }

  unlock(at: number): void {
    release(this.words, at + SLOT.lock)
  }

  isTroubled(slot: number): boolean {
    return Atomics.load(this.words, firstWord(slot % BACKEND_SLOTS) + SLOT.isTroubled) !== 0
  }

  /** Returns a consistent copy of the slot's words, or undefined if another backend has the slot now. */
  copyOf(slot: number): Int32Array<ArrayBuffer> | undefined {
    const copy = new Int32Array(SLOT_WORDS)
    const first = firstWord(slot % BACKEND_SLOTS)
    const words = this.words.subarray(first, first + SLOT_WORDS)
    const at = this.lock(slot)
    if (at === undefined) return undefined
    copy.set(words)
    this.unlock(at)
    return copy
  }

  #assign(identity: Int32Array, isTaken: Uint8Array): number {
    const index = this.#longestUnused(isTaken)
    isTaken[index] = 1
    const at = firstWord(index)
    const { words } = this
    acquire(words, at + SLOT.lock, this.#owner)
    const generation = words[at + SLOT.generation]! + 1
    words.fill(0, at + SLOT.isTroubled, at + SLOT_WORDS)
    words.set(identity, at + SLOT.identity)
    words[at + SLOT.generation] = generation
    release(words, at + SLOT.lock)
    return index
  }

  #longestUnused(isTaken: Uint8Array): number {
    let found = -1
    for (let index = 0; index < BACKEND_SLOTS; index++) {
      if (isTaken[index] === 0 && (found < 0 || this.#claimedAtMs(index) < this.#claimedAtMs(found))) found = index
    }
    return found
  }

  /** A slot that nobody has had comes before all others. */
  #claimedAtMs(index: number): number {
    const at = firstWord(index)
    return this.words[at + SLOT.generation] === 0 ? Number.NEGATIVE_INFINITY : this.floats[(at + SLOT.claimedAtMs) / 2]!
  }

  #indexOf(identity: Int32Array): number {
    for (let index = 0; index < BACKEND_SLOTS; index++) {
      const at = firstWord(index) + SLOT.identity
      let word = 0
      while (word < IDENTITY_WORDS && Atomics.load(this.words, at + word) === identity[word]) word++
      if (word === IDENTITY_WORDS) return index
    }
    return -1
  }

  #numberOf(index: number): number {
    return Atomics.load(this.words, firstWord(index) + SLOT.generation) * BACKEND_SLOTS + index
  }
}

export function newBackendsBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((PLACES + (workers + 1) * LANE_WORDS) * 4)
}

/**
 * Returns how many connections each backend may have: those of so many slots, and `EDGE_BACKEND_URL` if there is one. The shares are equal, so a backend that
 * hangs takes nobody else's.
 */
export function placesEach(total: number, backends: number, hasLastResort: boolean): number {
  return Math.max(1, Math.floor(total / (backends + (hasLastResort ? 1 : 0))))
}

/** Frees what a dead worker held: locks, probes, and the places of its connections, which are closed. */
export function forgetBackends(buffer: SharedArrayBuffer, worker: number): void {
  const words = new Int32Array(buffer)
  const owner = worker + 1
  for (let index = 0; index < BACKEND_SLOTS; index++) {
    const at = firstWord(index)
    freeProbesOf(words, at + SLOT.cooling, owner)
    for (let model = 0; model < MODEL_SLOTS; model++) freeProbesOf(words, at + SLOT.models + model * MODEL_WORDS + MODEL.cooling, owner)
    if (ownerOf(words, at + SLOT.lock) === owner) release(words, at + SLOT.lock)
  }
  if (ownerOf(words, ASSIGN_LOCK) === owner) release(words, ASSIGN_LOCK)
  words.fill(0, PLACES + worker * LANE_WORDS, PLACES + (worker + 1) * LANE_WORDS)
}

function firstWord(index: number): number {
  return FIRST_SLOT + index * SLOT_WORDS
}

function identityOf({ name, url }: NamedBackend): Int32Array {
  const digest = createHash('sha256').update(`${name}\n${url.href}`).digest()
  return Int32Array.from({ length: IDENTITY_WORDS }, (_, word) => digest.readInt32LE(word * 4))
}
