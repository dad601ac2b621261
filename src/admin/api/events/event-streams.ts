import type { ServerResponse } from 'node:http'
import { runInSlices } from '../../../slices.ts'
import { EVENTS_DROPPED, type PublishedEvent } from '../../../telemetry/events/published-events.ts'
import type { Series } from '../../../telemetry/metrics/counter-family.ts'
import { TimeShare } from '../../../time-share.ts'
import { EventReader, eventText } from './event-reader.ts'

/** What sending events may take of a worker's time. */
const SHARE = 0.05
const BURST_MS = 10
const BEAT_MS = 15_000

export interface EventStreamsParts {
  /** Asks for a place. Rejects where there is none; else events come from now on. */
  readonly claim: () => Promise<void>
  readonly giveBack: () => void
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
 * Those who watch events at this worker. Each batch goes to all of them in slices, within a share of the worker's time; until then the next
 * one is not asked for.
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

  /** To be called before a response is added. */
  claim(): Promise<void> {
    return this.#parts.claim()
  }

  /** `names`: of the events it wants; undefined: all. `isAllowed`: whether it still may read, asked at every beat. */
  add(res: ServerResponse, names: readonly string[] | undefined, isAllowed: () => boolean): void {
    const { socket } = res.req
    // Who has closed its own side is taken for gone: else that would be noticed only by what is sent next.
    if (res.closed || socket.readableEnded) {
      this.#parts.giveBack()
      return void socket.destroy()
    }
    const reader = new EventReader(res, names, isAllowed)
    if (this.#isEnded) return reader.end()
    this.#readers.add(reader)
    this.#beats ??= setInterval(() => this.#beat(), this.#parts.beatMs ?? BEAT_MS).unref()
    socket.once('end', () => socket.destroy())
    res.once('close', () => this.#remove(reader))
  }

  /** Sends events to all who want them. `onTaken` is called when there is time for more. */
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

  /** Ends all streams, behind everything that was to be sent. */
  end(): void {
    this.#isEnded = true
    while (this.#delivering?.next().done === false);
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
    clearInterval(this.#beats)
  }

  *#steps(): Generator<void, void> {
    for (let next = this.#deliveries.shift(); next !== undefined; next = this.#deliveries.shift()) {
      yield* this.#sendAll(next.events)
      this.#askForMore(next.onTaken)
    }
    this.#delivering = undefined
  }

  /** Readers connect again. */
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
      let made = texts.get(reader.filter)
      if (made === undefined) {
        const wanted = events.filter(({ name }) => reader.wants(name) || name === EVENTS_DROPPED)
        made = { text: Buffer.from(wanted.map(eventText).join('')), count: wanted.length }
        texts.set(reader.filter, made)
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
