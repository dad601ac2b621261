import type { ServerResponse } from 'node:http'
import { droppedEvent, EVENTS_DROPPED, type PublishedEvent } from '../../telemetry/events/published-events.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { runInSlices, TimeShare } from '../../time/slices.ts'

/** Which of the kept events somebody wants. */
export interface EventsAsk {
  /** Only events after the one with this number. A number that the instance has not assigned yet is from before a restart, and counts for nothing. */
  readonly after?: number | undefined
  /** Only events since this time; undefined means all that are kept. */
  readonly sinceMs?: number | undefined
  /** Only events with these names; undefined means all. */
  readonly names?: readonly string[] | undefined
}

/** The oldest of the wanted events, for a reader who gets all of them page by page. */
export interface EventsPage {
  readonly events: readonly PublishedEvent[]
  /** Number after which the next page or, if this is the last one, events that happen from now on continue. */
  readonly last: number
  readonly isEnd: boolean
}

/** What a reader of the stream wants. */
export interface StreamWish {
  /** Names of the wanted events; undefined means all. */
  readonly names?: readonly string[] | undefined
  /** Which of the kept events the stream begins with; undefined means none. */
  readonly kept?: EventsAsk | undefined
}

/** Share of a worker's time that sending events may take. */
const SHARE = 0.05
const BURST_MS = 10
const BEAT_MS = 15_000

export interface EventStreamsParts {
  /** Claims a slot for one more reader, and rejects if there is none. After that, events are delivered. */
  readonly claim: () => Promise<void>
  readonly giveBack: () => void
  /** Fetches kept events. What happens after the last page was made is delivered after it. */
  readonly page: (ask: EventsAsk) => Promise<EventsPage>
  readonly dropped: Series
  readonly onError: (error: unknown) => void
  readonly wallMs: () => number
  readonly beatMs?: number
}

interface Delivery {
  readonly events: readonly PublishedEvent[]
  readonly onTaken: () => void
}

/**
 * The readers of events at this worker. Each batch is sent to all of them in slices, within a share of the worker's time, and the next one is
 * requested only after that.
 */
export class EventStreams {
  readonly #parts: EventStreamsParts
  readonly #readers = new Set<EventReader>()
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  readonly #deliveries: Delivery[] = []
  #delivering: Generator<void, void> | undefined
  #beats: NodeJS.Timeout | undefined
  #isEnded = false

  constructor(parts: EventStreamsParts) {
    this.#parts = parts
  }

  /** Must be called before a response is added. */
  claim(): Promise<void> {
    return this.#parts.claim()
  }

  /** Adds a reader. `isAllowed` returns whether it may still read, and is called at every beat. */
  add(res: ServerResponse, wish: StreamWish, isAllowed: () => boolean): void {
    const { socket } = res.req
    // A client that has closed its own side is treated as gone; otherwise that would be noticed only at the next write.
    if (res.closed || socket.readableEnded) {
      this.#parts.giveBack()
      return void socket.destroy()
    }
    const reader = new EventReader(res, wish, isAllowed)
    if (this.#isEnded) return reader.end()
    this.#readers.add(reader)
    this.#beats ??= setInterval(() => this.#beat(), this.#parts.beatMs ?? BEAT_MS).unref()
    socket.once('end', () => socket.destroy())
    res.once('close', () => this.#remove(reader))
    if (wish.kept !== undefined) this.#replay(reader, wish.kept).catch(() => reader.cut()) // it may try again
  }

  /** Sends events to all readers that want them. `onTaken` is called when there is time for more. */
  deliver(events: readonly PublishedEvent[], onTaken: () => void): void {
    if (this.#isEnded) return
    this.#deliveries.push({ events, onTaken })
    if (this.#delivering !== undefined) return
    const steps = this.#steps()
    this.#delivering = steps
    runInSlices({
      steps,
      onSlice: (workMs) => this.#time.spend(workMs, performance.now()),
      onDone: () => {},
      onError: (error) => this.#fail(error),
    })
  }

  /** Sends everything that is pending, then ends all streams. */
  end(): void {
    this.#isEnded = true
    while (this.#delivering?.next().done === false);
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
    clearInterval(this.#beats)
  }

  /** Each page is fetched when the reader has taken the one before, so that readers who stall hold no more than a page. */
  async #replay(reader: EventReader, kept: EventsAsk): Promise<void> {
    for (let ask = kept; ; ) {
      const page = await this.#parts.page(ask)
      // It may have left meanwhile, or all streams may have ended.
      if (!this.#readers.has(reader)) return
      // Nothing may come between the last page and live events: the next message to this thread may bring some.
      reader.sendKept(page)
      if (page.isEnd) return
      await reader.drained()
      ask = { ...kept, after: page.last }
    }
  }

  *#steps(): Generator<void, void> {
    for (let next = this.#deliveries.shift(); next !== undefined; next = this.#deliveries.shift()) {
      yield* this.#sendAll(next.events)
      this.#askForMore(next.onTaken)
    }
    this.#delivering = undefined
  }

  /** Closes all connections; the readers will reconnect. */
  #fail(error: unknown): void {
    this.#delivering = undefined
    for (const reader of this.#readers) reader.cut()
    for (const { onTaken } of this.#deliveries.splice(0)) this.#askForMore(onTaken)
    this.#parts.onError(error)
  }

  #askForMore(onTaken: () => void): void {
    const waitMs = this.#time.waitMs(performance.now())
    if (waitMs === 0) onTaken()
    else setTimeout(onTaken, waitMs).unref()
  }

  *#sendAll(events: readonly PublishedEvent[]): Generator<void, void> {
    const { dropped, wallMs } = this.#parts
    const texts = new Map<string | undefined, { readonly text: Buffer; readonly count: number }>()
    for (const reader of this.#readers) {
      if (!reader.isLive) continue
      const hasSome = events.some(({ number }) => reader.has(number))
      let made = hasSome ? undefined : texts.get(reader.filter)
      if (made === undefined) {
        const wanted = events.filter(({ name, number }) => !reader.has(number) && (reader.wants(name) || name === EVENTS_DROPPED))
        made = { text: Buffer.from(wanted.map(eventText).join('')), count: wanted.length }
        if (!hasSome) texts.set(reader.filter, made)
      }
      if (made.count > 0) dropped.count += reader.send(made.text, made.count, wallMs())
      yield
    }
  }

  #beat(): void {
    for (const reader of this.#readers) if (!reader.beat(this.#parts.wallMs())) reader.cut()
  }

  #remove(reader: EventReader): void {
    if (!this.#readers.delete(reader)) return
    this.#parts.giveBack()
    if (this.#readers.size > 0) return
    clearInterval(this.#beats)
    this.#beats = undefined
  }
}

/** A reader with more unsent bytes than this gets no further events. The system's own buffers may hold more. */
const MAX_UNSENT_BYTES = 128 * 1024
/** Delay after which an EventSource reconnects when it has lost its connection. */
const RETRY_MS = 3000
/** A reader that accepts none of its pending bytes for this many beats is cut off. */
const MAX_IDLE_BEATS = 2

/** One reader of events: a response that never ends by itself. */
class EventReader {
  /** The wanted events as a text, which is the same for the same events; undefined for all. */
  readonly filter: string | undefined
  readonly #res: ServerResponse
  readonly #names: ReadonlySet<string> | undefined
  readonly #isAllowed: () => boolean
  /** False until it has got the kept events that it wants. What happens meanwhile is kept, too. */
  isLive: boolean
  /** Number of the last event that it got, or did not want, before it became live. */
  #last = 0
  #dropped = 0
  #hasTaken = false
  #idleBeats = 0

  constructor(res: ServerResponse, { names, kept }: StreamWish, isAllowed: () => boolean) {
    this.#res = res
    this.isLive = kept === undefined
    this.#isAllowed = isAllowed
    this.#names = names && new Set(names)
    this.filter = names && [...this.#names!].sort().join()
    res.writeHead(200, [
      ...['Content-Type', 'text/event-stream', 'Cache-Control', 'no-store', 'Connection', 'close'],
      ...['X-Accel-Buffering', 'no'], // otherwise nginx would buffer events
    ])
    this.#write(`retry: ${RETRY_MS}\n\n`)
  }

  wants(name: string): boolean {
    return this.#names?.has(name) ?? true
  }

  /** Whether it was given this event, or passed over it, before it became live. */
  has(number: number | undefined): boolean {
    return number !== undefined && number <= this.#last
  }

  sendKept({ events, last, isEnd }: EventsPage): void {
    if (events.length > 0) this.#write(events.map(eventText).join(''))
    this.#last = last
    this.isLive = isEnd
  }

  /** Resolves when the reader has room for more, or is gone. */
  drained(): Promise<void> {
    const res = this.#res
    if (!res.writableNeedDrain || res.closed) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        res.off('drain', end).off('close', end)
        resolve()
      }
      res.on('drain', end).on('close', end)
    })
  }

  /** Returns how many events were dropped: all of them if the reader is too far behind. */
  send(text: Buffer, events: number, wallMs: number): number {
    if (this.#isBehind) {
      this.#dropped += events
      return events
    }
    this.#announceDropped(wallMs)
    this.#write(text)
    return 0
  }

  /** Shows that the connection is alive. Returns false if the reader accepts nothing any more or may no longer read. */
  beat(wallMs: number): boolean {
    if (!this.#isAllowed()) return false
    const isWaiting = this.#res.writableLength > 0
    this.#idleBeats = isWaiting && !this.#hasTaken ? this.#idleBeats + 1 : 0
    this.#hasTaken = false
    if (this.#idleBeats >= MAX_IDLE_BEATS) return false
    if (!this.#isBehind) this.#announceDropped(wallMs)
    if (!isWaiting) this.#write(':\n\n')
    return true
  }

  end(): void {
    this.#res.end()
  }

  cut(): void {
    this.#res.destroy()
  }

  get #isBehind(): boolean {
    return this.#res.writableLength > MAX_UNSENT_BYTES
  }

  #announceDropped(wallMs: number): void {
    if (this.#dropped === 0) return
    this.#write(eventText(droppedEvent(this.#dropped, wallMs)))
    this.#dropped = 0
  }

  #write(text: string | Buffer): void {
    if (this.#res.destroyed) return // it was cut, and its place is given back in a moment
    this.#res.write(text, () => {
      this.#hasTaken = true
    })
  }
}

/** A reader that reconnects sends the last id that it has seen, and continues from there. */
function eventText({ name, line, number }: PublishedEvent): string {
  return `event: ${name}\ndata: ${line}\n${number === undefined ? '' : `id: ${number}\n`}\n`
}
