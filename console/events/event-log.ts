import { signal } from '@preact/signals'
import type { LogEvent } from './event-lines.ts'
import { EventRuns, isFolded, type SeenRun } from './event-runs.ts'

/** An event and its position in the order of arrival. */
interface SeenEvent {
  readonly number: number
  readonly event: LogEvent
}

/** A row of the list: an event, or several that are about requests. */
export type EventRow = SeenEvent | SeenRun

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

/** The events that this page has got, in bounded memory. */
class EventLog {
  readonly #kinds = new Map<string, Kind>()
  readonly #runs = new EventRuns()
  readonly #changes = signal(0)
  #total = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  add(event: LogEvent): void {
    const kind = this.#kindOf(event.event)
    const number = this.#total++
    kind.last[kind.count++ % KEPT_OF_A_KIND] = { number, event }
    this.#runs.note(event, number)
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#changes.value++
    }, SHOW_MS)
  }

  clear(): void {
    this.#kinds.clear()
    this.#runs.clear()
    this.#total = 0
    this.#changes.value++
  }

  /** Number of events that have arrived. */
  get total(): number {
    this.#changes.value
    return this.#total
  }

  /** Returns how often each kind has occurred, in the order in which they were first seen, so that none moves when another becomes more frequent. */
  counts(): readonly { readonly name: string; readonly count: number }[] {
    this.#changes.value
    return Array.from(this.#kinds, ([name, { count }]) => ({ name, count }))
  }

  /** Returns the wanted events of a kind, newest first, among those that are kept. */
  ofKind(kind: string, limit: number, isWanted: IsWanted): readonly EventRow[] {
    this.#changes.value
    return newest(this.#kinds.get(kind)?.last.filter(({ event }) => isWanted(event)) ?? [], limit)
  }

  /** Returns the wanted events of all kinds, newest first. Events about requests are folded, so that they do not displace the others. */
  ofAll(limit: number, isWanted: IsWanted): readonly EventRow[] {
    this.#changes.value
    const single = [...this.#kinds].filter(([name]) => !isFolded(name)).flatMap(([, { last }]) => last)
    return newest([...single.filter(({ event }) => isWanted(event)), ...this.#runs.wanted(isWanted)], limit)
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

type IsWanted = (event: LogEvent) => boolean

function newest(rows: readonly EventRow[], limit: number): readonly EventRow[] {
  return rows.toSorted((a, b) => b.number - a.number).slice(0, limit)
}

export const eventLog = new EventLog()
