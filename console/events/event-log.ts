import { signal } from '@preact/signals'

/** An event of `GET events`, which is a line of edge's log. */
export interface LogEvent {
  readonly event: string
  readonly time: string
  readonly level?: string
  readonly msg?: string
  readonly policy?: unknown
  readonly rule?: unknown
  /** Number of events of this kind that came before it and were left out. */
  readonly unlogged?: unknown
  readonly [field: string]: unknown
}

/** An event and its position in the order of arrival. */
export interface SeenEvent {
  readonly number: number
  readonly event: LogEvent
}

/** Marks a gap in the events, during which the page was not connected. */
export const NOT_CONNECTED = 'not_connected'

/** The last events of each kind are kept, so that many of one kind do not displace the few of another. */
const KEPT_OF_A_KIND = 200
const MAX_KINDS = 100
/** The kind that collects the events of all further kinds. */
const OTHERS = 'others'
/** The page is redrawn at most this often, however many events arrive. */
const SHOW_MS = 250

interface Kind {
  count: number
  /** A ring buffer: the oldest event is replaced. */
  readonly last: SeenEvent[]
}

/** The events that this page has seen since it was opened, in bounded memory. */
class EventLog {
  readonly #kinds = new Map<string, Kind>()
  readonly #changes = signal(0)
  #total = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  add(event: LogEvent): void {
    const kind = this.#kindOf(event.event)
    kind.last[kind.count++ % KEPT_OF_A_KIND] = { number: this.#total++, event }
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#changes.value++
    }, SHOW_MS)
  }

  clear(): void {
    this.#kinds.clear()
    this.#total = 0
    this.#changes.value++
  }

  /** Number of events that have arrived. */
  get total(): number {
    this.#changes.value
    return this.#total
  }

  /** Returns how often each kind has occurred, most frequent first. */
  counts(): readonly { readonly name: string; readonly count: number }[] {
    this.#changes.value
    return [...this.#kinds].map(([name, { count }]) => ({ name, count })).sort((a, b) => b.count - a.count)
  }

  /** Returns the wanted events among those that are kept, newest first. */
  newest(limit: number, kind: string | undefined, isWanted: (event: LogEvent) => boolean): readonly SeenEvent[] {
    this.#changes.value
    const kinds = kind === undefined ? [...this.#kinds.values()] : [this.#kinds.get(kind)]
    const wanted = kinds.flatMap((found) => found?.last.filter(({ event }) => isWanted(event)) ?? [])
    return wanted.sort((a, b) => b.number - a.number).slice(0, limit)
  }

  #kindOf(name: string): Kind {
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    if (this.#kinds.size >= MAX_KINDS && name !== OTHERS) return this.#kindOf(OTHERS)
    const kind: Kind = { count: 0, last: [] }
    this.#kinds.set(name, kind)
    return kind
  }
}

export const eventLog = new EventLog()
