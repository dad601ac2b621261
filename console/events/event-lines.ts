/** An event has at most 16 KiB, so a longer text without an end is not a stream of events. */
const MAX_UNREAD = 1024 * 1024
const DATA = 'data: '
const ID = 'id: '

/** An event of `GET events`, which is a line of edge's log. */
export interface LogEvent {
  readonly event: string
  readonly time: string
  readonly level?: string
  readonly msg?: string
  readonly policy?: unknown
  readonly rule?: unknown
  readonly reason?: unknown
  /** Number of events of this kind that came before it and were left out. */
  readonly unlogged?: unknown
  readonly [field: string]: unknown
}

/** An event as it was sent. */
export interface StreamedEvent {
  readonly data: string
  /** Its number, after which the stream can be continued. Events that only this reader gets have none. */
  readonly id: number | undefined
}

/** Reads server-sent events as edge writes them: `data` and `id` on one line each. */
export class EventLines {
  #rest = ''
  #data: string | undefined
  #id: number | undefined

  /** Returns the events that end in this text. */
  push(text: string): readonly StreamedEvent[] {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()!
    if (this.#rest.length > MAX_UNREAD) throw new Error('an event has no end')
    const events: StreamedEvent[] = []
    for (const line of lines) {
      if (line.startsWith(DATA)) this.#data = line.slice(DATA.length)
      else if (line.startsWith(ID)) this.#id = Number(line.slice(ID.length))
      else if (line === '' && this.#data !== undefined) {
        events.push({ data: this.#data, id: this.#id })
        this.#data = undefined
        this.#id = undefined
      }
    }
    return events
  }
}
