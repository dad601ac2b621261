import type { LogFile } from './logs/log-file.ts'
import { type LogListener, LogText } from './logs/log-text.ts'
import { END_OF_LOG, type LoggedRequest, type UnreadableLines } from './logs/logged-request.ts'

/** Passes on the requests of all logs by time and, if times are equal, in the order of the logs. Waits for calls that return a promise. */
export async function mergeLogs(sources: readonly LogSource[], onRequest: (request: LoggedRequest) => void | Promise<void>): Promise<void> {
  const heap = new TimeHeap<LogSource>()
  for (const source of sources) {
    await source.fill()
    if (source.next !== undefined) heap.push(source)
  }
  for (let source = heap.root; source !== undefined; source = heap.root) {
    const pending = onRequest(source.next!)
    if (pending !== undefined) await pending
    source.removeNext()
    if (!source.isReady) await source.fill()
    if (source.next === undefined) heap.removeRoot()
    else heap.settleRoot()
  }
}

/** Bounds on the requests that are kept to put them in order. */
export interface WindowBounds {
  readonly requests: number
  readonly characters: number
}

/**
 * A megabyte of gzip may unpack to a gigabyte of line ends. These bound the unpacked text of a compressed log that is not part of a request, in
 * characters and as a multiple of its size. Requests have no such bound, because a log in which all lines are alike compresses just as well.
 */
const MAX_IDLE_CHARACTERS = 16 * 1024 ** 2
const MAX_IDLE_RATIO = 32
/** Extra cost of a line that cannot be read: a short one is more work than its length suggests. */
const UNREADABLE_CHARACTERS = 64
const INFLATED = `it contains too much text that is not requests (more than ${MAX_IDLE_RATIO} times its compressed size), so the rest was skipped; if it is a log, unpack it first: zcat FILE | edge replay … -`

/** The requests of one log, sorted by time as far as its window reaches. */
export class LogSource implements LogListener {
  readonly file: LogFile
  /** Position among the logs. */
  readonly order: number
  readonly #bounds: WindowBounds
  readonly #unreadable: UnreadableLines
  readonly #text: LogText
  readonly #window = new ReorderWindow()
  /** Characters of text that is not part of a request. */
  #idleCharacters = 0
  #isEnded = false

  constructor(file: LogFile, order: number, bounds: WindowBounds, unreadable: UnreadableLines) {
    this.file = file
    this.order = order
    this.#bounds = bounds
    this.#unreadable = unreadable
    this.#text = new LogText(this)
  }

  /** Time of the next request; Infinity if there is none. */
  get timeMs(): number {
    return this.#window.earliest?.timeMs ?? Number.POSITIVE_INFINITY
  }

  get next(): LoggedRequest | undefined {
    return this.#window.earliest
  }

  removeNext(): void {
    this.#window.removeEarliest()
  }

  /** Whether the window is full or contains everything that is left. */
  get isReady(): boolean {
    const { length, size } = this.#window
    return this.#isEnded || length > this.#bounds.requests || (size > this.#bounds.characters && length > 0)
  }

  async fill(): Promise<void> {
    while (!this.isReady) {
      const piece = await this.file.next()
      if (piece === undefined) this.#end()
      else {
        this.#idleCharacters += piece.length
        this.#text.push(piece)
        if (this.#isInflated) this.#giveUp()
      }
    }
  }

  onRequest(request: LoggedRequest): void {
    this.#idleCharacters -= request.size
    this.#window.add(request)
  }

  onUnreadable(position: string, why: string): void {
    this.#idleCharacters += UNREADABLE_CHARACTERS
    this.#unreadable.add(this.file.name, position, why)
  }

  get #isInflated(): boolean {
    const { isCompressed, bytesRead } = this.file
    return isCompressed && this.#idleCharacters > Math.max(MAX_IDLE_CHARACTERS, MAX_IDLE_RATIO * bytesRead)
  }

  #giveUp(): void {
    this.file.damage = INFLATED
    this.#end()
  }

  #end(): void {
    this.#isEnded = true
    this.#text.end()
    if (this.file.damage !== undefined) this.onUnreadable(END_OF_LOG, this.file.damage)
  }
}

/** Removed requests at the start of the queue are only cut off once there are this many. */
const CUT_AT = 4096

interface Late extends Timed {
  readonly request: LoggedRequest
}

/** The newest requests of a log, sorted by time and then by position. Logs are nearly sorted, so only late requests cost more than an append to a queue. */
export class ReorderWindow {
  /** Size of the requests in characters. */
  size = 0
  #queue: LoggedRequest[] = []
  #first = 0
  #latestMs = Number.NEGATIVE_INFINITY
  readonly #late = new TimeHeap<Late>()
  #lateCount = 0

  get length(): number {
    return this.#queue.length - this.#first + this.#late.length
  }

  get earliest(): LoggedRequest | undefined {
    const queued = this.#queue[this.#first]
    const late = this.#late.root
    return late !== undefined && (queued === undefined || late.timeMs < queued.timeMs) ? late.request : queued
  }

  add(request: LoggedRequest): void {
    this.size += request.size
    const { timeMs } = request
    if (timeMs < this.#latestMs) return this.#late.push({ timeMs, order: this.#lateCount++, request })
    this.#latestMs = timeMs
    this.#queue.push(request)
  }

  removeEarliest(): void {
    const request = this.earliest!
    this.size -= request.size
    if (request === this.#late.root?.request) return this.#late.removeRoot()
    this.#first++
    if (this.#first < CUT_AT || this.#first * 2 < this.#queue.length) return
    this.#queue = this.#queue.slice(this.#first)
    this.#first = 0
  }
}

interface Timed {
  readonly timeMs: number
  /** Decides between equal times: the lower one comes first. */
  readonly order: number
}

/** A binary heap with the earliest item at its root. */
class TimeHeap<T extends Timed> {
  readonly #items: T[] = []

  get length(): number {
    return this.#items.length
  }

  get root(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.length
    items.push(item)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(item, items[parent]!)) break
      items[at] = items[parent]!
      at = parent
    }
    items[at] = item
  }

  removeRoot(): void {
    const last = this.#items.pop()!
    if (this.#items.length === 0) return
    this.#items[0] = last
    this.settleRoot()
  }

  /** To be called after the root's time has become later. */
  settleRoot(): void {
    const items = this.#items
    const item = items[0]!
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= items.length) break
      if (child + 1 < items.length && isBefore(items[child + 1]!, items[child]!)) child++
      if (!isBefore(items[child]!, item)) break
      items[at] = items[child]!
      at = child
    }
    items[at] = item
  }
}

function isBefore(one: Timed, other: Timed): boolean {
  return one.timeMs < other.timeMs || (one.timeMs === other.timeMs && one.order < other.order)
}
