import type { ServerConfig } from '../config/config.ts'
import { LISTENER_NAMES, type ListenerName, listener, openListeners } from './listeners.ts'

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

const SHARE_LANE_WORDS = 16
const WAIT_MS = 1
/** So many waits a second at most: all else in the thread waits too, and where connections come and go, shares may never even out. */
const MAX_WAITS = 50
/** So much more than the others have is tolerated. */
const SLACK = 0.1

/**
 * How many connections each worker has, in shared memory. The system wakes whom it likes: left alone, one worker may take
 * all of them. One that has more than its share waits a moment before it accepts the next, and somebody else will.
 */
export class ConnectionShares {
  readonly #words: Int32Array
  readonly #own: number
  readonly #workerCount: number
  #waitsLeft = MAX_WAITS
  #refilledAtMs = performance.now()

  /** Workers count from 1. */
  constructor(buffer: SharedArrayBuffer, worker: number) {
    this.#words = new Int32Array(buffer)
    this.#own = worker * SHARE_LANE_WORDS
    this.#workerCount = this.#words.length / SHARE_LANE_WORDS - 1
  }

  opened(): void {
    const own = Atomics.add(this.#words, this.#own, 1) + 1
    let total = 0
    for (let worker = 1; worker <= this.#workerCount; worker++) total += Atomics.load(this.#words, worker * SHARE_LANE_WORDS)
    if (own > (total / this.#workerCount) * (1 + SLACK) + 1 && this.#mayWait()) {
      // Nobody ever writes the word behind ours.
      Atomics.wait(this.#words, this.#own + 1, 0, WAIT_MS)
    }
  }

  #mayWait(): boolean {
    const nowMs = performance.now()
    this.#waitsLeft = Math.min(MAX_WAITS, this.#waitsLeft + ((nowMs - this.#refilledAtMs) / 1000) * MAX_WAITS)
    this.#refilledAtMs = nowMs
    if (this.#waitsLeft < 1) return false
    this.#waitsLeft--
    return true
  }

  closed(): void {
    Atomics.sub(this.#words, this.#own, 1)
  }

  *all(): Generator<readonly [worker: number, count: number]> {
    for (let worker = 1; worker <= this.#workerCount; worker++) yield [worker, Atomics.load(this.#words, worker * SHARE_LANE_WORDS)]
  }

  /** The connections of a dead worker are gone with it. */
  forgetWorker(worker: number): void {
    Atomics.store(this.#words, worker * SHARE_LANE_WORDS, 0)
  }
}

export function newSharesBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * SHARE_LANE_WORDS * 4)
}

/** Standard streams, event loops, listening sockets, the bundle, state and IP files, and the child that copies listening sockets. */
const BASE_RESERVE = 40
/** Event loop, listening sockets, and connections that are being turned away. */
const WORKER_RESERVE = 20
/** To the nodes of a cluster, by worker. */
const REDIS_CONNECTIONS = 16
const LEAST_RESERVED = 16
const MOST_RESERVED = 256
/** However low the limit is: below this it is no service. */
const LEAST_CONNECTIONS = 8

/** How many connections of each kind the limit of open files has room for, with a reserve for all else that needs one. */
export function connectionLimits(descriptors: number, config: ServerConfig): Readonly<Record<ConnectionKind, number>> {
  const reservedEach = Math.min(Math.max(Math.floor(descriptors / 64), LEAST_RESERVED), MOST_RESERVED)
  const reserved = LISTENER_NAMES.filter((name) => listener(name).connections === 'reserved')
  const shared = openListeners(config).filter((name) => !reserved.includes(name))
  const perWorker = WORKER_RESERVE + (config.redis === undefined ? 0 : REDIS_CONNECTIONS)
  const reserve = BASE_RESERVE + perWorker * config.workers + reservedEach * reserved.length
  const free = Math.min(Math.max(descriptors - reserve, LEAST_CONNECTIONS), MOST)
  // Each client that is let in can have a connection to the backend.
  const backend = config.mode === 'reverse_proxy' ? Math.min(config.backendMaxConnections ?? free, Math.floor(free / 2)) : 0
  const limits: Partial<Record<ConnectionKind, number>> = { backend }
  for (const name of LISTENER_NAMES) limits[name] = 0
  for (const name of reserved) limits[name] = reservedEach
  for (const name of shared) limits[name] = Math.floor((free - backend) / shared.length)
  return limits as Record<ConnectionKind, number>
}

/** Counts must fit into 32 bits. */
const MOST = 2 ** 30
