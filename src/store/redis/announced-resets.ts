import { type Limit, WINDOW } from '../../limiter/limit.ts'
import { DAY_MS } from '../../limiter/time-zone.ts'
import { controlEntryText, readControlEntry } from './control-script.ts'
import type { FleetCounter } from './fleet-counter.ts'

/** A reset that some instance made, as it is announced to all. It has no values: whoever decides on the counter finds it by its key. */
export interface AnnouncedReset {
  /** What names the counter in Redis, without the prefix. */
  readonly key: string
  /** Of the counter, whatever the subject: `identityDigest`. */
  readonly identity: string
  /** By the clock of Redis. */
  readonly momentMs: number
  /** Until then something from before it may arrive. */
  readonly forgetMs: number
}

/** Until when a reset is announced. */
export function forgetMsOf(limit: Limit, momentMs: number): number {
  const windowEndMs = limit.kind === WINDOW ? limit.calendar.windowAt(momentMs).endMs : 0
  return Math.max(momentMs + DAY_MS, windowEndMs)
}

/** The resets that were announced to a worker. They are applied when a counter is met: before that, nobody knows where its own count is. */
export class AnnouncedResets {
  readonly #byIdentity = new Map<string, Map<string, AnnouncedReset>>()
  #lastAnnouncedMs = Number.NEGATIVE_INFINITY
  #size = 0

  get isEmpty(): boolean {
    return this.#size === 0
  }

  /** When the last one was added, on the monotonic clock. */
  get lastAnnouncedMs(): number {
    return this.#lastAnnouncedMs
  }

  /** Adds some, and removes those that nobody has to remember any more; `wallMs` is by the clock of Redis. */
  add(resets: readonly AnnouncedReset[], nowMs: number, wallMs: number): void {
    this.#prune(wallMs)
    for (const reset of resets) {
      const { key, identity, momentMs, forgetMs } = reset
      const known = this.#byIdentity.get(identity)
      const before = known?.get(key)
      if (forgetMs <= wallMs || (before !== undefined && before.momentMs >= momentMs)) continue
      if (known === undefined) this.#byIdentity.set(identity, new Map([[key, reset]]))
      else known.set(key, reset)
      if (before === undefined) this.#size++
      this.#lastAnnouncedMs = nowMs
    }
  }

  /** The last reset of the counter's subject that has this key; `wallMs` is by the clock of Redis. */
  find(counter: FleetCounter, keyOf: () => string, wallMs: number): AnnouncedReset | undefined {
    const reset = this.#byIdentity.get(counter.identityDigest)?.get(keyOf())
    if (reset === undefined) return undefined
    const { limit } = counter
    // One of an earlier window says nothing of this one.
    const isOver = limit.kind === WINDOW && limit.calendar.windowAt(wallMs).startMs > reset.momentMs
    return isOver ? undefined : reset
  }

  #prune(wallMs: number): void {
    for (const [identity, resets] of this.#byIdentity) {
      for (const [key, { forgetMs }] of resets) {
        if (forgetMs > wallMs) continue
        resets.delete(key)
        this.#size--
      }
      if (resets.size === 0) this.#byIdentity.delete(identity)
    }
  }
}

/** As it is kept in Redis, by its key. */
export function resetEntry({ key, identity, momentMs, forgetMs }: AnnouncedReset): readonly [key: string, entry: string] {
  return [key, controlEntryText({ momentMs, forgetMs, untilMs: 0, id: undefined, text: identity })]
}

/** Undefined where it is not one of ours. */
export function resetOf(key: string, entry: string): AnnouncedReset | undefined {
  const read = readControlEntry(entry)
  return read && { key, identity: read.text, momentMs: read.momentMs, forgetMs: read.forgetMs }
}
