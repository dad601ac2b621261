import { createHash, randomFillSync } from 'node:crypto'
import type { ServerConfig } from '../config/config.ts'
import { LISTENER_NAMES, type ListenerName, listener, openListeners } from './listeners.ts'

/** Kinds of connections: those that each listener accepts, and those that the proxy opens to the backend. */
export type ConnectionKind = ListenerName | 'backend'
const KINDS: readonly ConnectionKind[] = [...LISTENER_NAMES, 'backend']

/** Words for each worker and kind: how many connections it has, and how many requests wait for one. */
export const PLACE_WORDS = 2
const FIRST_KEPT_WORD = KINDS.length * PLACE_WORDS
/** Addresses are counted by a hash of this many values, so that few share a count. */
const ADDRESS_WORDS = 4096
const FIRST_ADDRESS_WORD = FIRST_KEPT_WORD + PLACE_WORDS
/** That hash is salted, so that nobody can choose addresses that share a count. The salt is in the first lane, which belongs to no worker. */
const SALT_WORDS = 4
const FIRST_SALT_WORD = FIRST_ADDRESS_WORD + ADDRESS_WORDS
const LANE_WORDS = FIRST_SALT_WORD + SALT_WORDS

/** Where the counts of one kind of connections are: each worker has a lane, and every lane has them at the same index. */
interface PlaceLanes {
  readonly words: Int32Array
  readonly laneWords: number
  readonly first: number
}

/** Bounds connections for the whole process, in shared memory. Each worker writes only its own counts. */
export class ConnectionPlaces {
  /** How many there may be now; fewer than `total` if the rest is shared out to others. */
  max: number
  readonly total: number
  readonly #words: Int32Array
  readonly #laneWords: number
  readonly #first: number
  readonly #own: number

  /** Workers are numbered from 1. */
  constructor({ words, laneWords, first }: PlaceLanes, worker: number, max: number) {
    this.max = max
    this.total = max
    this.#words = words
    this.#laneWords = laneWords
    this.#first = first
    this.#own = worker * laneWords + first
  }

  /** Returns false, and changes nothing, if all places are taken. */
  take(): boolean {
    Atomics.add(this.#words, this.#own, 1)
    if (this.#sum(0) <= this.max) return true
    this.giveBack()
    return false
  }

  giveBack(): void {
    Atomics.sub(this.#words, this.#own, 1)
  }

  /** Number of connections of all workers. */
  get taken(): number {
    return this.#sum(0)
  }

  /** Sets how many requests of this worker wait for a place. */
  set waiting(count: number) {
    Atomics.store(this.#words, this.#own + 1, count)
  }

  /** Number of requests of all workers that wait for a place. */
  get waitingInAll(): number {
    return this.#sum(1)
  }

  /** Whether another worker waits for a place. */
  get isWantedElsewhere(): boolean {
    return this.#sum(1) > Atomics.load(this.#words, this.#own + 1)
  }

  /** Whether another worker that waits has at least two connections fewer than this one, or has none while this one has some. */
  get isOwedElsewhere(): boolean {
    const own = Atomics.load(this.#words, this.#own)
    for (let at = this.#first; at < this.#words.length; at += this.#laneWords) {
      if (at === this.#own || Atomics.load(this.#words, at + 1) === 0) continue
      const others = Atomics.load(this.#words, at)
      if (others + 2 <= own || (others === 0 && own > 0)) return true
    }
    return false
  }

  #sum(word: number): number {
    let sum = 0
    for (let at = this.#first + word; at < this.#words.length; at += this.#laneWords) sum += Atomics.load(this.#words, at)
    return sum
  }
}

/** The connections of one kind. */
export class ConnectionSlots extends ConnectionPlaces {
  /** Undefined if all may take all of them. */
  readonly reserved: ReservedSlots | undefined

  constructor(buffer: SharedArrayBuffer, worker: number, kind: ConnectionKind, max: number) {
    const words = new Int32Array(buffer)
    super({ words, laneWords: LANE_WORDS, first: KINDS.indexOf(kind) * PLACE_WORDS }, worker, max)
    if (kind === 'backend' || listener(kind).connections !== 'reserved') return
    this.reserved = new ReservedSlots(words, worker, max)
    this.max = max - this.reserved.kept.max
  }
}

/** An address may have this part of reserved slots, in all workers. */
const ADDRESS_PART = 1 / 4
/** This part of reserved slots is for probes alone, of any address. */
const KEPT_PART = 1 / 8

/** The slots of a listener that few clients share: an address has only a part of them, and some are kept. */
export class ReservedSlots {
  readonly kept: ConnectionPlaces
  readonly #max: number
  readonly #words: Int32Array
  readonly #ownAt: number
  readonly #salt: Buffer

  constructor(words: Int32Array, worker: number, max: number) {
    this.kept = new ConnectionPlaces({ words, laneWords: LANE_WORDS, first: FIRST_KEPT_WORD }, worker, Math.floor(max * KEPT_PART))
    this.#max = Math.ceil(max * ADDRESS_PART)
    this.#words = words
    this.#ownAt = worker * LANE_WORDS + FIRST_ADDRESS_WORD
    this.#salt = saltOf(words.buffer)
  }

  /** Returns where an address is counted. `subject` is what `addressSubject` returns for it. */
  placeOf(subject: string): number {
    return createHash('sha256').update(this.#salt).update(subject).digest().readUInt32LE() % ADDRESS_WORDS
  }

  /** Returns false, and changes nothing, if the addresses that are counted here have their part. */
  take(place: number): boolean {
    Atomics.add(this.#words, this.#ownAt + place, 1)
    if (this.#sum(place) <= this.#max) return true
    this.giveBack(place)
    return false
  }

  giveBack(place: number): void {
    Atomics.sub(this.#words, this.#ownAt + place, 1)
  }

  hasPart(place: number): boolean {
    return this.#sum(place) >= this.#max
  }

  #sum(place: number): number {
    let sum = 0
    for (let at = FIRST_ADDRESS_WORD + place; at < this.#words.length; at += LANE_WORDS) sum += Atomics.load(this.#words, at)
    return sum
  }
}

/** Returns one worker's slots for all kinds. */
export function connectionSlotsOf(
  buffer: SharedArrayBuffer,
  worker: number,
  limits: Readonly<Record<ConnectionKind, number>>,
): Readonly<Record<ConnectionKind, ConnectionSlots>> {
  const slots = KINDS.map((kind) => [kind, new ConnectionSlots(buffer, worker, kind, limits[kind])])
  return Object.fromEntries(slots) as Record<ConnectionKind, ConnectionSlots>
}

export function newSlotsBuffer(workers: number): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer((workers + 1) * LANE_WORDS * 4)
  randomFillSync(saltOf(buffer))
  return buffer
}

function saltOf(buffer: ArrayBufferLike): Buffer {
  return Buffer.from(buffer, FIRST_SALT_WORD * 4, SALT_WORDS * 4)
}

/** Clears the counts of a dead worker, whose connections are closed. */
export function forgetSlots(buffer: SharedArrayBuffer, worker: number): void {
  new Int32Array(buffer).fill(0, worker * LANE_WORDS, (worker + 1) * LANE_WORDS)
}

const SHARE_LANE_WORDS = 16
const WAIT_MS = 1
/** Maximum number of waits per second. A wait blocks the whole thread, and with short connections the shares may never even out. */
const MAX_WAITS = 50
/** How far a worker may exceed the average, as a fraction of it, before it waits. */
const SLACK = 0.1

/**
 * Number of connections of each worker, in shared memory. The kernel may wake any worker for a new connection, so one worker could end up
 * with all of them. A worker with more than its share waits a moment before it accepts the next one, so that another worker gets it.
 */
export class ConnectionShares {
  readonly #words: Int32Array
  readonly #own: number
  readonly #workerCount: number
  #waitsLeft = MAX_WAITS
  #refilledAtMs = performance.now()

  /** Workers are numbered from 1. */
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
      // Nothing ever writes the word after ours, so this only sleeps.
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

  /** Clears the count of a dead worker, whose connections are closed. */
  forgetWorker(worker: number): void {
    Atomics.store(this.#words, worker * SHARE_LANE_WORDS, 0)
  }
}

export function newSharesBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * SHARE_LANE_WORDS * 4)
}

/** Descriptors for standard streams, event loops, listening sockets, bundle, state and IP files, and the child that copies listening sockets. */
const BASE_RESERVE = 40
/** Descriptors of each worker for its event loop, listening sockets, and connections that are being turned away. */
const WORKER_RESERVE = 20
/** Connections of each worker to the nodes of a Redis cluster. */
const REDIS_CONNECTIONS = 16
const LEAST_RESERVED = 32
const MOST_RESERVED = 256
/** Minimum, however low the limit of open files is: with fewer connections, the service would be useless. */
const LEAST_CONNECTIONS = 8

/** Returns how many connections of each kind fit into the limit of open files, with a reserve for everything else that needs a descriptor. */
export function connectionLimits(descriptors: number, config: ServerConfig): Readonly<Record<ConnectionKind, number>> {
  const reservedEach = Math.min(Math.max(Math.floor(descriptors / 64), LEAST_RESERVED), MOST_RESERVED)
  const reserved = LISTENER_NAMES.filter((name) => listener(name).connections === 'reserved')
  const shared = openListeners(config).filter((name) => !reserved.includes(name))
  const perWorker = WORKER_RESERVE + (config.redis === undefined ? 0 : REDIS_CONNECTIONS)
  const reserve = BASE_RESERVE + perWorker * config.workers + reservedEach * reserved.length
  const free = Math.min(Math.max(descriptors - reserve, LEAST_CONNECTIONS), MOST)
  // Each admitted client may need a connection to the backend.
  const backend = config.mode === 'reverse_proxy' ? Math.min(config.backendMaxConnections ?? free, Math.floor(free / 2)) : 0
  const limits: Partial<Record<ConnectionKind, number>> = { backend }
  for (const name of LISTENER_NAMES) limits[name] = 0
  for (const name of reserved) limits[name] = reservedEach
  for (const name of shared) limits[name] = Math.floor((free - backend) / shared.length)
  return limits as Record<ConnectionKind, number>
}

/** Upper bound that keeps all counts within 32 bits. */
const MOST = 2 ** 30
