import { signal } from '@preact/signals'

/** An event of `GET events`: a line of edge's log. */
export interface LogEvent {
  readonly event: string
  readonly time: string
  readonly level?: string
  readonly msg?: string
  readonly policy?: unknown
  readonly rule?: unknown
  /** How many of its kind came before it and were left out. */
  readonly unlogged?: unknown
  readonly [field: string]: unknown
}

/** An event in the order in which it came. */
export interface SeenEvent {
  readonly number: number
  readonly event: LogEvent
}

/** Stands where events are missing because the page was not connected. */
export const NOT_CONNECTED = 'not_connected'

/** Of each kind the last ones are kept, so that many of one kind do not push out the few of another. */
const KEPT_OF_A_KIND = 200
const MAX_KINDS = 100
/** The kind of all beyond that. */
const OTHERS = 'others'
/** The page is drawn so often, however many events come. */
const SHOW_MS = 250

interface Kind {
  count: number
  /** A ring: the oldest is replaced. */
  readonly last: SeenEvent[]
}

/** What this page has seen since it was opened, in bounded memory. */
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

  /** How many have come. */
  get total(): number {
    this.#changes.value
    return this.#total
  }

  /** How often each kind has come, the most frequent first. */
  counts(): readonly { readonly name: string; readonly count: number }[] {
    this.#changes.value
    return [...this.#kinds].map(([name, { count }]) => ({ name, count })).sort((a, b) => b.count - a.count)
  }

  /** Those that are kept and wanted, the newest first. */
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
