import type { LookupFunction, Socket } from 'node:net'
import type { ConnectionPlaces } from '../../listen/connection-slots.ts'
import { BackendConnection, type BackendConnectionParts, type ConnectionUser } from './backend-connection.ts'
import { SilenceSweep } from './silence-sweep.ts'

export interface BackendOptions {
  readonly url: URL
  readonly connectTimeoutMs: number
  readonly headersTimeoutMs: number
  readonly idleTimeoutMs: number
  /** How long a request waits for a connection when all are in use. */
  readonly queueMs: number
  /** Resolves the name of the backend's host; the system's resolver if undefined. */
  readonly lookup?: LookupFunction | undefined
}

export interface BackendListener extends QueueListener {
  /** Called with the number of open connections whenever it changes. */
  onOpenConnections(count: number): void
}

export interface SilentRequests {
  readonly count: number
  readonly longestMs: number
}

/** Backends close idle connections, and a request that is on its way at that moment is lost, so we close ours first. */
const IDLE_MS = 4000
const HINT_MARGIN_MS = 1000
/** How often a worker with waiting calls checks whether others have freed a slot. */
const LOOK_MS = 50
/** How long a worker leaves a freed slot to the others: until their next check has surely come. */
const HAND_OVER_MS = 2 * LOOK_MS
/** Number of turns within the time that a request may wait: often enough for requests of other workers, rarely enough to cost little. */
const TURNS = 4

/** A call that needs a connection. */
export interface ConnectionSeeker extends ConnectionUser {
  /** The connection must be new: no other request may have used it. */
  readonly needsFresh: boolean
  /** The connection may become a WebSocket tunnel. */
  readonly isUpgrade: boolean
  onGiven(connection: BackendConnection): void
  /** No connection became free in time, or too many calls wait for one already. */
  onNoRoom(detail: string): void
}

/**
 * The connections to the backend. The one that was used last is reused first, so that surplus ones expire. Idle connections and WebSockets occupy
 * slots too; when all slots are taken, requests wait.
 */
export class Backend {
  readonly options: BackendOptions
  readonly #slots: ConnectionPlaces
  readonly #listener: BackendListener
  readonly #idle: BackendConnection[] = []
  readonly #open = new Set<BackendConnection>()
  readonly #queue: ConnectionQueue<ConnectionSeeker>
  readonly #sweep: SilenceSweep
  readonly #connectionParts: BackendConnectionParts
  #looking: NodeJS.Timeout | undefined
  /** Until this time, the worker takes no slot while other workers wait for one. */
  #abstainUntilMs = 0
  /** Until this time, the worker keeps its slots even if it owes some to another worker. */
  #turnEndsMs = 0
  #isServingQueue = false
  /** There may be more connections than the limit, which was lowered. */
  #hasSurplus = false
  #isClosed = false

  constructor(options: BackendOptions, slots: ConnectionPlaces, listener: BackendListener) {
    this.options = options
    this.#slots = slots
    this.#listener = listener
    const { url, lookup, connectTimeoutMs, headersTimeoutMs, idleTimeoutMs, queueMs } = options
    // The checks also give up idle connections: five times while a call of another worker may wait for one.
    const limits = [connectTimeoutMs, headersTimeoutMs, idleTimeoutMs, IDLE_MS, 2 * queueMs].filter((ms) => ms > 0)
    this.#sweep = new SilenceSweep(Math.min(...limits), () => this.#checkSilence())
    this.#connectionParts = { url, lookup, connectTimeoutMs, sweep: this.#sweep, onIdleClosed: (closed) => this.drop(closed) }
    this.#queue = new ConnectionQueue(queueMs, {
      onQueueLength: (count) => {
        slots.waiting = count
        listener.onQueueLength(count)
      },
      onQueueWait: (seconds) => listener.onQueueWait(seconds),
    })
  }

  /** Closes all connections but tunnels. No callbacks follow, not even for waiting calls. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#looking)
    this.#sweep.stop()
    this.#queue.clear()
    for (const connection of [...this.#open]) this.drop(connection)
  }

  /** Changes how many connections all workers may have. Surplus ones are closed, those in use after their call. */
  limitConnections(max: number): void {
    this.#slots.max = max
    this.#hasSurplus = this.#isOverfull()
    while (this.#isOverfull() && this.#idle.length > 0) this.drop(this.#idle[0]!)
    this.#serveQueueSoon()
  }

  /** Gives the call a connection, now or as soon as one is free. A reused connection may be written to at once. */
  connect(call: ConnectionSeeker): void {
    // Calls that already wait are served first.
    if (this.#queue.first === undefined && this.#give(call)) return
    this.#queue.add(call)
    this.#look()
  }

  /** Removes a call that no longer wants a connection. */
  cancel(call: ConnectionSeeker): void {
    this.#queue.remove(call)
  }

  /** Keeps a connection for the next request, unless another worker is owed its slot or the backend will soon close it. */
  giveBack(connection: BackendConnection): void {
    const restMs = connection.keepAliveMs === undefined ? IDLE_MS : connection.keepAliveMs - HINT_MARGIN_MS
    if (this.#hasSurplus) this.#hasSurplus = this.#isOverfull()
    if (this.#isClosed || restMs <= 0 || this.#hasSurplus) return this.drop(connection)
    if (this.#slots.isOwedElsewhere && this.#isTurnOver()) return this.drop(connection)
    connection.rest(restMs)
    this.#idle.push(connection)
    this.#serveQueueSoon()
  }

  /** Turns the connection into a WebSocket tunnel, which keeps its slot until the socket closes. */
  becomeTunnel(connection: BackendConnection, socket: Socket): void {
    this.#open.delete(connection)
    this.#listener.onOpenConnections(this.#open.size)
    socket.once('close', () => this.#freeSlot())
  }

  drop(connection: BackendConnection): void {
    connection.destroy()
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (!this.#open.delete(connection)) return
    this.#listener.onOpenConnections(this.#open.size)
    this.#freeSlot()
  }

  /** The requests to which the backend has sent nothing for more than this time. Looks at each connection. */
  silentFor(ms: number): SilentRequests {
    let [count, longestMs] = [0, 0]
    for (const { silentMs } of this.#open) {
      if (silentMs <= ms) continue
      count++
      longestMs = Math.max(longestMs, silentMs)
    }
    return { count, longestMs }
  }

  #give(call: ConnectionSeeker): boolean {
    const idle = call.needsFresh ? undefined : this.#idle.pop()
    if (idle !== undefined) {
      idle.use(call)
      call.onGiven(idle)
      return true
    }
    if (!this.#takeSlot()) return false
    // Without a turn, this first slot would be owed to another worker again after one request.
    if (this.#open.size === 0) this.#beginTurn(performance.now())
    this.#sweep.start()
    const connection = new BackendConnection(this.#connectionParts, call, call.isUpgrade)
    this.#open.add(connection)
    this.#listener.onOpenConnections(this.#open.size)
    call.onGiven(connection)
    return true
  }

  /** Returns whether any connection is open. */
  #checkSilence(): boolean {
    for (const connection of this.#open) connection.checkSilence()
    this.#giveUpIdle()
    return this.#open.size > 0
  }

  /** Closes half of the idle connections if calls of other workers wait for their slots. */
  #giveUpIdle(): void {
    if (this.#idle.length === 0 || this.#queue.first !== undefined || !this.#slots.isWantedElsewhere) return
    for (const connection of this.#idle.slice(0, Math.ceil(this.#idle.length / 2))) this.drop(connection)
  }

  /** Without turns, a worker that is always busy would keep its slots forever, and requests that wait in other workers would get none. */
  #isTurnOver(): boolean {
    const nowMs = performance.now()
    if (nowMs < this.#turnEndsMs) return false
    this.#abstainUntilMs = nowMs + HAND_OVER_MS
    this.#beginTurn(nowMs)
    return true
  }

  #beginTurn(nowMs: number): void {
    this.#turnEndsMs = nowMs + Math.max(this.options.queueMs / TURNS, HAND_OVER_MS)
  }

  #isOverfull(): boolean {
    return this.#slots.taken > this.#slots.max
  }

  #takeSlot(): boolean {
    if (performance.now() < this.#abstainUntilMs && this.#slots.isWantedElsewhere) return false
    if (this.#slots.take()) return true
    const [oldest] = this.#idle
    if (oldest === undefined) return false
    this.drop(oldest)
    return this.#slots.take()
  }

  #freeSlot(): void {
    this.#slots.giveBack()
    this.#serveQueueSoon()
  }

  /** Serves the queue in a later turn of the event loop, because the caller is in the middle of giving up a connection. */
  #serveQueueSoon(): void {
    if (this.#isServingQueue || this.#queue.first === undefined) return
    this.#isServingQueue = true
    setImmediate(() => {
      this.#isServingQueue = false
      this.#serveQueue()
    })
  }

  #serveQueue(): void {
    for (let call = this.#queue.first; call !== undefined; call = this.#queue.first) {
      if (this.#isClosed || !this.#give(call)) return
      this.#queue.serve(call)
    }
  }

  /** Workers do not notify each other, so each one polls while it has waiting calls. */
  #look(): void {
    this.#looking ??= setInterval(() => {
      this.#serveQueue()
      if (this.#queue.first !== undefined) return
      clearInterval(this.#looking)
      this.#looking = undefined
    }, LOOK_MS).unref()
  }
}

/** With more calls in the queue, a new one is unlikely to be served in time, and waiting calls hold memory. */
const MAX_WAITING = 1000

interface QueueListener {
  /** Called with the number of requests that wait for a connection whenever it changes. */
  onQueueLength(count: number): void
  /** Called with the time that a request waited for the connection it got. */
  onQueueWait(seconds: number): void
}

interface QueueEntry {
  readonly timer: NodeJS.Timeout
  readonly sinceMs: number
}

/** Requests that wait for a connection to the backend, first come, first served. Bounded in length and time. */
export class ConnectionQueue<Seeker extends { onNoRoom(detail: string): void }> {
  readonly #waitMs: number
  readonly #listener: QueueListener
  readonly #waiting = new Map<Seeker, QueueEntry>()
  /** Calls that were refused because the queue is full. They are notified in a later turn of the event loop. */
  readonly #refused = new Map<Seeker, NodeJS.Timeout>()

  constructor(waitMs: number, listener: QueueListener) {
    this.#waitMs = waitMs
    this.#listener = listener
  }

  get first(): Seeker | undefined {
    return this.#waiting.size === 0 ? undefined : this.#waiting.keys().next().value
  }

  add(seeker: Seeker): void {
    if (this.#waiting.size >= MAX_WAITING) {
      const timer = setTimeout(() => {
        this.#refused.delete(seeker)
        seeker.onNoRoom(`all connections are in use, and ${MAX_WAITING} requests wait for one`)
      }, 0)
      this.#refused.set(seeker, timer)
      return
    }
    const timer = setTimeout(() => {
      this.remove(seeker)
      seeker.onNoRoom(`all connections were in use for ${this.#waitMs} ms`)
    }, this.#waitMs)
    this.#waiting.set(seeker, { timer, sinceMs: performance.now() })
    this.#listener.onQueueLength(this.#waiting.size)
  }

  /** To be called when the call got its connection. */
  serve(seeker: Seeker): void {
    this.#listener.onQueueWait((performance.now() - this.#waiting.get(seeker)!.sinceMs) / 1000)
    this.remove(seeker)
  }

  /** To be called when the call no longer needs a connection. */
  remove(seeker: Seeker): void {
    clearTimeout(this.#refused.get(seeker))
    this.#refused.delete(seeker)
    const entry = this.#waiting.get(seeker)
    if (entry === undefined) return
    clearTimeout(entry.timer)
    this.#waiting.delete(seeker)
    this.#listener.onQueueLength(this.#waiting.size)
  }

  clear(): void {
    for (const seeker of [...this.#waiting.keys(), ...this.#refused.keys()]) this.remove(seeker)
  }
}
