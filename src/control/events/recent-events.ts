import type { EventsAsk, EventsPage } from '../../admin/endpoints/event-streams.ts'
import type { EventsList } from '../../admin/endpoints/events-endpoints.ts'
import type { PublishedEvent } from '../../telemetry/events/published-events.ts'

const HOUR_MS = 3_600_000
/** The bounds of all kept events together. Lines that are not plain ASCII take two bytes a character, so 1 MiB at most. */
const MAX_EVENTS = 2000
const MAX_CHARACTERS = 512 * 1024
/** Size of a page in which kept events are sent to a reader. It is small, because each of many readers may hold one. */
const PAGE_CHARACTERS = 32 * 1024

interface KeptEvent {
  readonly event: PublishedEvent
  readonly atMs: number
}

/** What is kept under one name. */
interface KeptName {
  /** Oldest first. */
  readonly numbers: number[]
  characters: number
  /** When the newest event was published that was removed to make room, or before which others may be missing. */
  lostMs: number
}

/**
 * The events of the last hour, in bounded memory. When there is no room left, the oldest event of the name that takes most room goes: a flood of rejects
 * removes rejects, never the bundle that caused them.
 */
export class RecentEvents {
  readonly #startedMs: number
  /** By number, and so in the order in which they were published. */
  readonly #kept = new Map<number, KeptEvent>()
  readonly #names = new Map<string, KeptName>()
  #characters = 0
  #last: number

  /** Numbers begin above those of an earlier process unless its clock was ahead, so that a reader may continue after a restart. */
  constructor(wallMs: number) {
    this.#startedMs = wallMs
    this.#last = Math.floor(wallMs) * 1000
  }

  /** Returns the event with its number. */
  add(published: PublishedEvent, wallMs: number): PublishedEvent {
    const number = ++this.#last
    const event = { name: published.name, line: published.line, number }
    this.#kept.set(number, { event, atMs: wallMs })
    const name = this.#nameOf(event.name)
    name.numbers.push(number)
    name.characters += event.line.length
    if (published.isLastForNow) name.lostMs = Math.max(name.lostMs, wallMs)
    this.#characters += event.line.length
    this.#removeOld(wallMs)
    while (this.#kept.size > MAX_EVENTS) this.#removeFrom(this.#largest(({ numbers }) => numbers.length))
    while (this.#characters > MAX_CHARACTERS) this.#removeFrom(this.#largest(({ characters }) => characters))
    return event
  }

  page(ask: EventsAsk, wallMs: number): EventsPage {
    const events: PublishedEvent[] = []
    let characters = 0
    for (const event of this.#wanted(ask, wallMs)) {
      characters += event.line.length
      if (characters > PAGE_CHARACTERS && events.length > 0) return { events, last: events.at(-1)!.number!, isEnd: false }
      events.push(event)
    }
    return { events, last: this.#last, isEnd: true }
  }

  list(ask: EventsAsk, limit: number, wallMs: number): EventsList {
    const lines = Array.from(this.#wanted(ask, wallMs), ({ line }) => line)
    const sinceMs = Math.max(ask.sinceMs ?? 0, this.#startedMs, wallMs - HOUR_MS)
    const isLost = (name: string): boolean => (this.#names.get(name)?.lostMs ?? 0) >= sinceMs
    const lost = [...(ask.names ?? this.#names.keys())].some(isLost)
    return { sinceMs, isComplete: !lost && lines.length <= limit, lines: lines.slice(-limit) }
  }

  *#wanted({ after, sinceMs = 0, names }: EventsAsk, wallMs: number): Generator<PublishedEvent> {
    this.#removeOld(wallMs)
    const first = after === undefined || after > this.#last ? 0 : after + 1
    const wanted = names && new Set(names)
    for (const [number, { event, atMs }] of this.#kept)
      if (number >= first && atMs >= sinceMs && (wanted?.has(event.name) ?? true)) yield event
  }

  #nameOf(text: string): KeptName {
    let name = this.#names.get(text)
    if (name === undefined) {
      name = { numbers: [], characters: 0, lostMs: 0 }
      this.#names.set(text, name)
    }
    return name
  }

  /** There are some sixty names. */
  #largest(sizeOf: (name: KeptName) => number): KeptName {
    return [...this.#names.values()].reduce((largest, name) => (sizeOf(name) > sizeOf(largest) ? name : largest))
  }

  #removeFrom(name: KeptName): void {
    name.lostMs = Math.max(name.lostMs, this.#removeFirst(name))
  }

  #removeOld(wallMs: number): void {
    for (const { event, atMs } of this.#kept.values()) {
      if (atMs > wallMs - HOUR_MS) return
      this.#removeFirst(this.#names.get(event.name)!)
    }
  }

  /** Returns when it was published. */
  #removeFirst(name: KeptName): number {
    const number = name.numbers.shift()!
    const { event, atMs } = this.#kept.get(number)!
    this.#kept.delete(number)
    name.characters -= event.line.length
    this.#characters -= event.line.length
    return atMs
  }
}
