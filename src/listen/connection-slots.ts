import { LISTENER_NAMES, type ListenerName } from './listeners.ts'

/** What connections are for: those that a listener accepts, and those that the proxy opens. */
export type ConnectionKind = ListenerName | 'backend'
const KINDS: readonly ConnectionKind[] = [...LISTENER_NAMES, 'backend']

/** By worker and kind: how many it has, and how many it waits for. */
const WORDS = 2
const LANE_WORDS = KINDS.length * WORDS

/** Bounds the connections of one kind for the whole process, in shared memory. Each worker writes its own counts alone. */
export class ConnectionSlots {
  readonly max: number
  readonly #words: Int32Array
  readonly #first: number
  readonly #own: number

  /** Workers count from 1. */
  constructor(buffer: SharedArrayBuffer, worker: number, kind: ConnectionKind, max: number) {
    this.max = max
    this.#words = new Int32Array(buffer)
    this.#first = KINDS.indexOf(kind) * WORDS
    this.#own = worker * LANE_WORDS + this.#first
  }

  /** Returns false, and changes nothing, when all are taken. */
  take(): boolean {
    Atomics.add(this.#words, this.#own, 1)
    if (this.#sum(0) <= this.max) return true
    this.giveBack()
    return false
  }

  giveBack(): void {
    Atomics.sub(this.#words, this.#own, 1)
  }

  /** So many in this worker wait for a slot. */
  set waiting(count: number) {
    Atomics.store(this.#words, this.#own + 1, count)
  }

  /** Whether anybody in another worker waits for one. */
  get isWantedElsewhere(): boolean {
    return this.#sum(1) > Atomics.load(this.#words, this.#own + 1)
  }

  /** Whether another worker that waits has none while this one has some, or at least two fewer. */
  get isOwedElsewhere(): boolean {
    const own = Atomics.load(this.#words, this.#own)
    for (let at = this.#first; at < this.#words.length; at += LANE_WORDS) {
      if (at === this.#own || Atomics.load(this.#words, at + 1) === 0) continue
      const others = Atomics.load(this.#words, at)
      if (others + 2 <= own || (others === 0 && own > 0)) return true
    }
    return false
  }

  #sum(word: number): number {
    let sum = 0
    for (let at = this.#first + word; at < this.#words.length; at += LANE_WORDS) sum += Atomics.load(this.#words, at)
    return sum
  }
}

/** One worker's view of all kinds. */
export function connectionSlotsOf(
  buffer: SharedArrayBuffer,
  worker: number,
  limits: Readonly<Record<ConnectionKind, number>>,
): Readonly<Record<ConnectionKind, ConnectionSlots>> {
  const slots = KINDS.map((kind) => [kind, new ConnectionSlots(buffer, worker, kind, limits[kind])])
  return Object.fromEntries(slots) as Record<ConnectionKind, ConnectionSlots>
}

export function newSlotsBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * LANE_WORDS * 4)
}

/** The connections of a dead worker are gone with it. */
export function forgetSlots(buffer: SharedArrayBuffer, worker: number): void {
  new Int32Array(buffer).fill(0, worker * LANE_WORDS, (worker + 1) * LANE_WORDS)
}
