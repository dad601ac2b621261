import { REQUEST_EVENTS } from '../../src/text/request-events.ts'
import type { LogEvent } from './event-lines.ts'

const KEPT_RUNS = 200
/** Places of a run that are told apart; the rest is counted together. */
const MAX_PLACES = 20

/** Where events of a run happened, and how many requests they stand for. */
export interface RunPlace {
  readonly policy: unknown
  readonly rule: unknown
  readonly reason: unknown
  readonly count: number
}

/** Events of one kind about requests with nothing but such events between them. */
export interface SeenRun {
  /** Position of its first event, so that its row stays where it is while it grows. */
  readonly number: number
  readonly name: string
  readonly level: string | undefined
  readonly from: string
  readonly to: string
  /** Number of requests, including those that edge did not log one by one. */
  readonly count: number
  /** The most frequent first. */
  readonly places: readonly RunPlace[]
  /** Requests at further places. */
  readonly elsewhere: number
}

interface OpenRun {
  readonly number: number
  readonly name: string
  readonly level: string | undefined
  readonly from: string
  to: string
  readonly places: Map<string, RunPlace & { count: number }>
  elsewhere: number
}

/** Returns whether events of this kind are folded where all kinds are listed. */
export function isFolded(kind: string): boolean {
  return REQUEST_EVENTS.has(kind)
}

/** Counts events about requests between events of other kinds, in bounded memory, however many there are. */
export class EventRuns {
  /** The oldest first. */
  readonly #runs: OpenRun[] = []
  /** By kind. */
  readonly #open = new Map<string, OpenRun>()

  note(event: LogEvent, number: number): void {
    const { event: name, level, time } = event
    if (!REQUEST_EVENTS.has(name)) return this.#open.clear()
    let run = this.#open.get(name)
    if (run === undefined) {
      run = { number, name, level, from: time, to: time, places: new Map(), elsewhere: 0 }
      this.#open.set(name, run)
      this.#runs.push(run)
      if (this.#runs.length > KEPT_RUNS) this.#runs.shift()
    }
    run.to = time
    count(run, event)
  }

  clear(): void {
    this.#runs.length = 0
    this.#open.clear()
  }

  /** Returns the runs as they are now, with the places that are wanted. Runs without any are left out. */
  wanted(isWanted: (event: LogEvent) => boolean): readonly SeenRun[] {
    return this.#runs.flatMap(({ number, name, level, from, to, places: all, elsewhere: others }) => {
      const places = [...all.values()].filter((place) => isWanted({ event: name, time: from, ...place, count: undefined }))
      if (places.length === 0) return []
      const elsewhere = places.length === all.size ? others : 0
      const sum = places.reduce((total, place) => total + place.count, elsewhere)
      const sorted = places.map((place) => ({ ...place })).sort((a, b) => b.count - a.count)
      return [{ number, name, level, from, to, count: sum, places: sorted, elsewhere }]
    })
  }
}

function count(run: OpenRun, { policy, rule, reason, unlogged }: LogEvent): void {
  const requests = 1 + (Number(unlogged) || 0)
  const key = JSON.stringify([policy, rule, reason])
  const known = run.places.get(key)
  if (known !== undefined) known.count += requests
  else if (run.places.size < MAX_PLACES) run.places.set(key, { policy, rule, reason, count: requests })
  else run.elsewhere += requests
}
