import type { Wait, WaitingLines } from '../../engine/waiting-lines.ts'
import type { WaitMetrics, WaitOutcome } from '../../telemetry/metrics/wait-metrics.ts'
import type { BodyMemory, Sender } from '../body/body-memory.ts'
import { Line } from './line.ts'

/** How many requests of one caller may wait in a worker. */
const MAX_PER_CALLER = 100
/** How many requests of one address may wait in a worker, because clients can make up the values of many limit keys. */
const MAX_PER_ADDRESS = 200
/** The first in a line is decided again at least this often: an override, a reset or a settlement may let it pass earlier, or block it. */
const LOOK_MS = 1000

/** A request that may wait. */
export interface WaitingRequest {
  readonly sender: Sender
  /** Bytes of its body that are in memory; 0 while it has not been read. */
  readonly bodyBytes: number
  /** Decides it once more, with the plan that is active by then. Must not throw. */
  decideAgain(): void
}

export interface WaitingRoomParts {
  /** How many requests may wait in this worker. */
  readonly maxWaiting: number
  readonly nowMs: () => number
  /** Calls back later, and returns what cancels that. */
  readonly after: (ms: number, callback: () => void) => () => void
  readonly bodyMemory: Pick<BodyMemory, 'beginWait' | 'endWait'>
  readonly metrics: WaitMetrics
}

/**
 * The requests of a worker that wait for a rule instead of being rejected. There is a line for each counter and caller, in the order in which requests began
 * to wait. A request stands in the lines of all counters that reject it. Whoever is first in all of its lines is decided again when it would pass; everybody
 * else when those ahead are gone, or when their time is up. Whoever waited longest is first in all of its lines, so somebody always is.
 */
export class WaitingRoom {
  readonly parts: WaitingRoomParts
  readonly #waiters = new Set<Waiter>()
  readonly #lines = new Map<string, Line<Waiter>>()
  /** How many requests wait, by caller and by address. */
  readonly #held = new Map<string, number>()
  #lastNumber = 0
  #isClosed = false

  constructor(parts: WaitingRoomParts) {
    this.parts = parts
  }

  /** To be called for each request that may wait. It does not wait before a rejection is admitted. */
  open(request: WaitingRequest): Waiter {
    return new Waiter(this, request)
  }

  /** Decides all that wait for the last time. From now on, nobody waits. */
  close(): void {
    this.#isClosed = true
    for (const waiter of this.#waiters) waiter.lookSoon()
  }

  get isEmpty(): boolean {
    return this.#waiters.size === 0
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  lineAt(name: string): Line<Waiter> | undefined {
    return this.#lines.get(name)
  }

  /** Returns the places that a request takes when it begins to wait; undefined if there is none left for it. */
  enter(waiter: Waiter, { rule, caller }: Wait, { address, isClient }: Sender): readonly string[] | undefined {
    const { maxWaiting, metrics } = this.parts
    const own = caller ?? `address ${address}`
    const places = isClient ? [own, `client ${address}`] : [own]
    const isFull = this.#waiters.size >= maxWaiting || this.#heldBy(own) >= MAX_PER_CALLER
    if (isFull || (isClient && this.#heldBy(`client ${address}`) >= MAX_PER_ADDRESS)) {
      metrics.count(rule, 'full')
      return undefined
    }
    for (const place of places) this.#held.set(place, this.#heldBy(place) + 1)
    this.#waiters.add(waiter)
    metrics.waiting.count = this.#waiters.size
    return places
  }

  leave(waiter: Waiter, places: readonly string[]): void {
    for (const place of places) {
      const left = this.#heldBy(place) - 1
      if (left > 0) this.#held.set(place, left)
      else this.#held.delete(place)
    }
    this.#waiters.delete(waiter)
    this.parts.metrics.waiting.count = this.#waiters.size
  }

  nextNumber(): number {
    return ++this.#lastNumber
  }

  join(waiter: Waiter, name: string, cost: number): Line<Waiter> {
    let line = this.#lines.get(name)
    if (line === undefined) {
      line = new Line(name)
      this.#lines.set(name, line)
    }
    line.put(waiter, cost)
    return line
  }

  /** Whoever comes first by this is decided at once. */
  quit(waiter: Waiter, line: Line<Waiter>): void {
    const wasFirst = line.first === waiter
    line.remove(waiter)
    if (line.first === undefined) this.#lines.delete(line.name)
    else if (wasFirst) line.first.lookIfFirst()
  }

  #heldBy(place: string): number {
    return this.#held.get(place) ?? 0
  }
}

/** One request's place in the room. It sees the lines as the engine needs them. */
export class Waiter implements WaitingLines {
  readonly #room: WaitingRoom
  readonly #request: WaitingRequest
  /** Requests are numbered when they begin to wait; 0 before that. */
  number = 0
  #lines: readonly Line<Waiter>[] = []
  /** The places that the request takes; undefined before it waits and after its end. */
  #places: readonly string[] | undefined
  /** The wait that was admitted last. */
  #wait: Wait | undefined
  /** The rule that the request waited for first, which its wait is counted for. */
  #rule: Wait['rule'] | undefined
  #waitedMs = 0
  /** When it was last admitted; undefined while it is being decided. */
  #sinceMs: number | undefined
  #bodyBytes = 0
  #cancel = (): void => {}

  constructor(room: WaitingRoom, request: WaitingRequest) {
    this.#room = room
    this.#request = request
  }

  get isEmpty(): boolean {
    return this.#room.isEmpty
  }

  /** Whether the request has begun to wait, and its wait has not ended. */
  get hasWaited(): boolean {
    return this.#places !== undefined
  }

  aheadIn(name: string): number {
    return this.#room.lineAt(name)?.aheadOf(this.number) ?? 0
  }

  admit(wait: Wait): boolean {
    const room = this.#room
    if (room.isClosed || this.#waitedMs >= wait.maxMs || this.#waitedMs > wait.slackMs || !this.#holdBody()) return false
    this.#places ??= room.enter(this, wait, this.#request.sender)
    if (this.#places === undefined) {
      this.#releaseBody()
      return false
    }
    if (this.number === 0) this.number = room.nextNumber()
    this.#rule ??= wait.rule
    this.#wait = wait
    this.#sinceMs = room.parts.nowMs()
    const before = this.#lines
    this.#lines = wait.needs.map(({ line, cost }) => room.join(this, line, cost))
    for (const line of before) if (!this.#lines.includes(line)) room.quit(this, line)
    this.#schedule()
    return true
  }

  /** Leaves the lines, but not the room, while the request's body is read: a slow sender must not hold up those behind it. */
  stepAside(): void {
    const before = this.#lines
    this.#lines = []
    for (const line of before) this.#room.quit(this, line)
  }

  /** Ends the wait. Returns how long it was, in milliseconds; undefined if the request did not wait. */
  end(outcome: WaitOutcome): number | undefined {
    const places = this.#places
    if (places === undefined) return undefined
    this.#pause()
    this.#places = undefined
    this.#room.leave(this, places)
    this.stepAside()
    this.#releaseBody()
    this.#room.parts.metrics.count(this.#rule!, outcome)
    this.#room.parts.metrics.seconds.observe(this.#waitedMs / 1000)
    return this.#waitedMs
  }

  /** Decides the request again in a later turn of the event loop. */
  lookSoon(): void {
    if (this.#sinceMs === undefined) return
    this.#cancel()
    this.#cancel = this.#room.parts.after(0, () => this.#look())
  }

  lookIfFirst(): void {
    if (this.#isFirst) this.lookSoon()
  }

  get #isFirst(): boolean {
    return this.#lines.every(({ first }) => first === this)
  }

  #schedule(): void {
    const { maxMs, lookMs } = this.#wait!
    const leftMs = maxMs - this.#waitedMs
    const inMs = this.#isFirst ? Math.min(lookMs, LOOK_MS, leftMs) : leftMs
    // Timers count whole milliseconds, and one that is early would find the request rejected once more.
    this.#cancel = this.#room.parts.after(Math.ceil(inMs), () => this.#look())
  }

  #look(): void {
    this.#pause()
    this.#request.decideAgain()
  }

  #pause(): void {
    this.#cancel()
    if (this.#sinceMs !== undefined) this.#waitedMs += this.#room.parts.nowMs() - this.#sinceMs
    this.#sinceMs = undefined
  }

  #holdBody(): boolean {
    const { bodyBytes } = this.#request
    if (this.#bodyBytes === bodyBytes) return true
    if (!this.#room.parts.bodyMemory.beginWait(bodyBytes)) return false
    this.#bodyBytes = bodyBytes
    return true
  }

  #releaseBody(): void {
    this.#room.parts.bodyMemory.endWait(this.#bodyBytes)
    this.#bodyBytes = 0
  }
}
