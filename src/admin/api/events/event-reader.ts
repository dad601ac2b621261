import type { ServerResponse } from 'node:http'
import { droppedEvent, type PublishedEvent } from '../../../telemetry/events/published-events.ts'

/** With more than this unsent, a reader gets no further events. What the system's own buffers hold comes on top. */
const MAX_UNSENT_BYTES = 128 * 1024
/** After a lost connection, an EventSource connects again after this. */
const RETRY_MS = 3000
/** A reader that took nothing of what waits for it in so many beats is cut off. */
const MAX_IDLE_BEATS = 2

/** One who watches events: a response that has no end of its own. */
export class EventReader {
  /** The events it wants, in a text that is the same for the same events; undefined: all. */
  readonly filter: string | undefined
  readonly #res: ServerResponse
  readonly #names: ReadonlySet<string> | undefined
  readonly #isAllowed: () => boolean
  #dropped = 0
  #hasTaken = false
  #idleBeats = 0

  constructor(res: ServerResponse, names: readonly string[] | undefined, isAllowed: () => boolean) {
    this.#res = res
    this.#isAllowed = isAllowed
    this.#names = names && new Set(names)
    this.filter = names && [...this.#names!].sort().join()
    res.writeHead(200, [
      ...['Content-Type', 'text/event-stream', 'Cache-Control', 'no-store', 'Connection', 'close'],
      ...['X-Accel-Buffering', 'no'], // nginx would keep events back
    ])
    this.#write(`retry: ${RETRY_MS}\n\n`)
  }

  wants(name: string): boolean {
    return this.#names?.has(name) ?? true
  }

  /** Returns how many were dropped: all, where it has not taken what it got before. */
  send(text: Buffer, events: number, wallMs: number): number {
    if (this.#isBehind) {
      this.#dropped += events
      return events
    }
    this.#announceDropped(wallMs)
    this.#write(text)
    return 0
  }

  /** Shows that the connection is alive. Returns false for a reader that takes nothing any more, or may not read any more. */
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
    this.#res.write(text, () => {
      this.#hasTaken = true
    })
  }
}

export function eventText({ name, line }: PublishedEvent): string {
  return `event: ${name}\ndata: ${line}\n\n`
}
