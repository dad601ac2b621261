import type { Socket } from 'node:net'
import type { ConnectionSlots } from '../../listen/connection-slots.ts'
import { BackendConnection, type BackendConnectionParts, type ConnectionUser } from './backend-connection.ts'
import { SilenceSweep } from './silence-sweep.ts'

export interface BackendOptions {
  readonly url: URL
  readonly connectTimeoutMs: number
  readonly headersTimeoutMs: number
  readonly idleTimeoutMs: number
  /** How long a request waits for a connection when all are in use. */
  readonly queueMs: number
}

export interface BackendListener extends QueueListener {
  /** So many connections are open; called whenever that changes. */
  onOpenConnections(count: number): void
}

/** Backends close idle connections, and a request on its way then is lost: ours go first. */
const IDLE_MS = 4000
const HINT_MARGIN_MS = 1000
/** How often a worker looks whether others have given up a connection, or want one. */
const LOOK_MS = 50
/** A slot that is handed over stays free until the other worker checks. */
const HAND_OVER_MS = 2 * LOOK_MS
/** How many turns workers take within the time that a request may wait: often enough for requests of other workers, rarely enough to cost little. */
const TURNS = 4

/** A call on its way to a connection. */
export interface ConnectionSeeker extends ConnectionUser {
  /** No other request may have used the connection. */
  readonly needsFresh: boolean
  /** The connection may become a WebSocket's. */
  readonly isUpgrade: boolean
  onGiven(connection: BackendConnection): void
  /** No connection became free in time. */
  onNoRoom(detail: string): void
}

/**
 * Where allowed requests go. Connections are used again, the youngest first, so that those that are not needed die. Idle ones
 * and WebSockets take slots too; when all slots are taken, requests wait.
 */
export class Backend {
  readonly options: BackendOptions
  readonly #slots: ConnectionSlots
  readonly #listener: BackendListener
  readonly #idle: BackendConnection[] = []
  readonly #open = new Set<BackendConnection>()
  readonly #queue: ConnectionQueue<ConnectionSeeker>
  readonly #sweep: SilenceSweep
  readonly #connectionParts: BackendConnectionParts
  #looking: NodeJS.Timeout | undefined
  /** Until then the slots that others wait for are left to them. */
  #abstainUntilMs = 0
  /** Until then this worker keeps its slots, although another one is owed some. */
  #turnEndsMs = 0
  #isServingQueue = false
  #isClosed = false

  constructor(options: BackendOptions, slots: ConnectionSlots, listener: BackendListener) {
    this.options = options
    this.#slots = slots
    this.#listener = listener
    const { url, connectTimeoutMs, headersTimeoutMs, idleTimeoutMs } = options
    const limits = [connectTimeoutMs, headersTimeoutMs, idleTimeoutMs, IDLE_MS].filter((ms) => ms > 0)
    this.#sweep = new SilenceSweep(Math.min(...limits), () => this.#checkSilence())
    this.#connectionParts = { url, connectTimeoutMs, sweep: this.#sweep, onIdleClosed: (closed) => this.drop(closed) }
    this.#queue = new ConnectionQueue(options.queueMs, {
      onQueueLength: (count) => {
        slots.waiting = count
        listener.onQueueLength(count)
      },
      onQueueWait: (seconds) => listener.onQueueWait(seconds),
    })
  }

  /** Ends all connections. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#looking)
    this.#sweep.stop()
    this.#queue.clear()
    for (const connection of [...this.#open]) this.drop(connection)
  }

  /** Gives the call a connection: now, or when there is one. One that was used before comes ready to be written to. */
  connect(call: ConnectionSeeker): void {
    // Whoever waits longer is served first.
    if (this.#queue.first === undefined && this.#give(call)) return
    this.#queue.add(call)
    this.#look()
  }

  /** The call does not wait for a connection any more. */
  cancel(call: ConnectionSeeker): void {
    this.#queue.remove(call)
  }

  /** Keeps a connection for the next request. */
  giveBack(connection: BackendConnection): void {
    const restMs = connection.keepAliveMs === undefined ? IDLE_MS : connection.keepAliveMs - HINT_MARGIN_MS
    if (this.#isClosed || restMs <= 0) return this.drop(connection)
    if (this.#queue.first !== undefined && this.#slots.isOwedElsewhere && this.#isTurnOver()) return this.drop(connection)
    connection.rest(restMs)
    this.#idle.push(connection)
    this.#look()
    this.#serveQueueSoon()
  }

  /** The connection is a WebSocket's from now on, and keeps its slot until that closes. */
  becomeTunnel(connection: BackendConnection, socket: Socket): void {
    this.#open.delete(connection)
    this.#listener.onOpenConnections(this.#open.size)
    socket.once('close', () => this.#leavePlace())
  }

  drop(connection: BackendConnection): void {
    connection.destroy()
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (!this.#open.delete(connection)) return
    this.#listener.onOpenConnections(this.#open.size)
    this.#leavePlace()
  }

  #give(call: ConnectionSeeker): boolean {
    const idle = call.needsFresh ? undefined : this.#idle.pop()
    if (idle !== undefined) {
      idle.use(call)
      call.onGiven(idle)
      return true
    }
    if (!this.#takePlace()) return false
    // A first slot would otherwise be owed to another worker again after one request.
    if (this.#open.size === 0) this.#beginTurn(performance.now())
    this.#sweep.start()
    const connection = new BackendConnection(this.#connectionParts, call, call.isUpgrade)
    this.#open.add(connection)
    this.#listener.onOpenConnections(this.#open.size)
    call.onGiven(connection)
    return true
  }

  /** Returns whether there is a connection. */
  #checkSilence(): boolean {
    for (const connection of this.#open) connection.checkSilence()
    return this.#open.size > 0
  }

  /** A worker whose own queue never ends would keep its slots for good, and those who wait in another would get none. */
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

  #takePlace(): boolean {
    if (performance.now() < this.#abstainUntilMs && this.#slots.isWantedElsewhere) return false
    if (this.#slots.take()) return true
    const [oldest] = this.#idle
    if (oldest === undefined) return false
    this.drop(oldest)
    return this.#slots.take()
  }

  #leavePlace(): void {
    this.#slots.giveBack()
    this.#serveQueueSoon()
  }

  /** In a turn of its own: whoever gives a connection up is in the middle of something. */
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

  /** Workers do not notify each other: this one checks, as long as it matters to it. */
  #look(): void {
    this.#looking ??= setInterval(() => {
      this.#serveQueue()
      if (this.#queue.first === undefined && this.#slots.isWantedElsewhere) {
        for (const connection of this.#idle.slice(0, Math.ceil(this.#idle.length / 2))) this.drop(connection)
      }
      if (this.#queue.first !== undefined || this.#idle.length > 0) return
      clearInterval(this.#looking)
      this.#looking = undefined
    }, LOOK_MS).unref()
  }
}

/** Beyond this a wait within any useful time is unlikely, and what waits holds memory. */
const MAX_WAITING = 1000

/** What a queue reports. */
interface QueueListener {
  /** So many requests wait for a connection. */
  onQueueLength(count: number): void
  /** A request waited so long for the connection that it got. */
  onQueueWait(seconds: number): void
}

interface Place {
  readonly timer: NodeJS.Timeout
  readonly sinceMs: number
}

/** Requests that wait for a connection to the backend, first come, first served. Bounded in length and time. */
export class ConnectionQueue<Seeker extends { onNoRoom(detail: string): void }> {
  readonly #waitMs: number
  readonly #listener: QueueListener
  readonly #waiting = new Map<Seeker, Place>()
  /** Refused already, because the queue is full; they are told in a later turn. */
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

  /** It has its connection. */
  serve(seeker: Seeker): void {
    this.#listener.onQueueWait((performance.now() - this.#waiting.get(seeker)!.sinceMs) / 1000)
    this.remove(seeker)
  }

  /** It does not need one any more. */
  remove(seeker: Seeker): void {
    clearTimeout(this.#refused.get(seeker))
    this.#refused.delete(seeker)
    const place = this.#waiting.get(seeker)
    if (place === undefined) return
    clearTimeout(place.timer)
    this.#waiting.delete(seeker)
    this.#listener.onQueueLength(this.#waiting.size)
  }

  clear(): void {
    for (const seeker of [...this.#waiting.keys(), ...this.#refused.keys()]) this.remove(seeker)
  }
}
