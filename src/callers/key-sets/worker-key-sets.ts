import type { CallerProblem } from '../../request/caller.ts'
import type { PublishedKeys } from '../jwt/key-set.ts'
import type { KeySetNews, KeySetsChange } from './key-set-news.ts'
import { type KeySetEntry, type KeySource, keySourceOf } from './key-source.ts'

/** Why a token's key is not here. */
type KeyProblem = Extract<CallerProblem, 'unknown_key' | 'keys_unavailable'>

/** What a worker makes of the keys that were read. */
export interface OpenKeySet {
  /** Whether any key has this `kid`. */
  has(kid: string): boolean
}

export interface WorkerKeySetsParts<KeySet extends OpenKeySet> {
  readonly open: (keys: PublishedKeys) => KeySet
  /** Asks the main thread to read a set again. It answers with a change, sooner or later. */
  readonly ask: (source: KeySource) => void
  readonly nowMs: () => number
  /** How long a request waits for a set to be read. */
  readonly waitMs: number
  /** Calls back after a time, unless it is cancelled by then. */
  readonly after?: (ms: number, callback: () => void) => () => void
}

/** The key sets of one plan's entries. */
export interface EntryKeySets<KeySet extends OpenKeySet> {
  /** Undefined while the set of that entry was never read. The same object as long as the set does not change. */
  of(entryName: string): KeySet | undefined
  /**
   * Called for a token whose key is not in the set of its entry, or has none. `kid` must be short, since it is remembered. Returns why the key is not here, or waits for the set to be read again; with
   * undefined the token can be tried once more.
   */
  wait(entryName: string, kid: string | undefined): KeyProblem | Promise<KeyProblem | undefined>
}

/** How long a request of the proxy waits for a set to be read. */
export const PROXY_WAIT_MS = 2000
/**
 * How long a question of a gateway waits. Gateways give up after a second, and one that fails open would then let a caller in who names a key that
 * does not exist.
 */
export const QUESTION_WAIT_MS = 500
/** Requests that wait at the same time, over all sets of a worker: they hold memory, and others must not wait behind them. */
const MAX_WAITING = 100

/** The worker's copies of all key sets. */
export class WorkerKeySets<KeySet extends OpenKeySet> {
  readonly #parts: WorkerKeySetsParts<KeySet>
  readonly #sets = new Map<KeySource, WorkerKeySet<KeySet>>()
  #waiting = 0

  constructor(parts: WorkerKeySetsParts<KeySet>) {
    this.#parts = parts
  }

  note({ changed, gone }: KeySetsChange): void {
    for (const news of changed) {
      let set = this.#sets.get(news.source)
      if (set === undefined) {
        set = new WorkerKeySet(news.source, this.#parts, news)
        this.#sets.set(news.source, set)
      }
      set.note(news)
    }
    for (const source of gone) {
      this.#sets.get(source)?.leave()
      this.#sets.delete(source)
    }
  }

  /** A name means what the plan's own entry says, so a set never serves an entry of another plan that has only the name in common. */
  forEntries(entries: readonly KeySetEntry[]): EntryKeySets<KeySet> {
    const sources = new Map(entries.map((entry) => [entry.name, keySourceOf(entry)]))
    const setOf = (name: string): WorkerKeySet<KeySet> | undefined => this.#sets.get(sources.get(name) ?? '')
    return {
      of: (name) => setOf(name)?.current,
      wait: (name, kid) => {
        const set = setOf(name)
        if (set === undefined) return 'keys_unavailable'
        return set.problemNow(kid, this.#waiting >= MAX_WAITING) ?? this.#counted(set.next(kid))
      },
    }
  }

  async #counted<Result>(wait: Promise<Result>): Promise<Result> {
    this.#waiting++
    try {
      return await wait
    } finally {
      this.#waiting--
    }
  }
}

interface Waiter {
  readonly kid: string | undefined
  readonly end: (problem: KeyProblem | undefined) => void
}

/** One set, as this worker knows it. */
class WorkerKeySet<KeySet extends OpenKeySet> {
  readonly #source: KeySource
  readonly #parts: WorkerKeySetsParts<KeySet>
  readonly #sights = new Sights()
  readonly #waiters = new Set<Waiter>()
  #news: KeySetNews
  #current: KeySet | undefined
  /** Whether the main thread was asked and has not answered yet. */
  #isAsked = false
  /** Whether somebody has waited for that answer in vain: then nobody else does. */
  #isSlow = false

  constructor(source: KeySource, parts: WorkerKeySetsParts<KeySet>, news: KeySetNews) {
    this.#source = source
    this.#parts = parts
    this.#news = news
  }

  get current(): KeySet | undefined {
    return this.#current
  }

  /** Why the key is not here, if waiting would not help or too many wait. Undefined if the set can be read again for it. */
  problemNow(kid: string | undefined, isCrowded: boolean): KeyProblem | undefined {
    const nowMs = this.#parts.nowMs()
    const sightMs = this.#sights.firstMs(kid, nowMs)
    const isAskable = this.#isAsked ? !this.#isSlow : nowMs >= this.#news.askableAtMs
    return isAskable && !isCrowded ? undefined : this.#problemOf(sightMs)
  }

  /** Resolves with the problem of the key once the set was read again, or when the time is over; with undefined if the key is here now. */
  next(kid: string | undefined): Promise<KeyProblem | undefined> {
    const { after = callLater, waitMs } = this.#parts
    return new Promise((resolve) => {
      const waiter: Waiter = {
        kid,
        end: (problem) => {
          cancel()
          this.#waiters.delete(waiter)
          resolve(problem)
        },
      }
      const cancel = after(waitMs, () => {
        this.#isSlow = this.#isAsked
        waiter.end('keys_unavailable')
      })
      this.#waiters.add(waiter)
      this.#ask()
    })
  }

  note(news: KeySetNews): void {
    this.#news = news
    if (news.keys !== undefined) {
      this.#current = this.#parts.open(news.keys)
      this.#sights.forget(news.keys.kids)
    }
    this.#isAsked = false
    this.#isSlow = false
    for (const waiter of this.#waiters) this.#look(waiter)
  }

  /** The active bundle no longer names the source. */
  leave(): void {
    for (const waiter of this.#waiters) waiter.end('keys_unavailable')
  }

  #ask(): void {
    if (this.#isAsked) return
    this.#isAsked = true
    this.#parts.ask(this.#source)
  }

  /** Ends the wait, unless the reading that has ended began before the key was first seen, and the set can be read once more. */
  #look(waiter: Waiter): void {
    const { kid, end } = waiter
    const current = this.#current
    if (current !== undefined && (kid === undefined || current.has(kid))) return end(undefined)
    const nowMs = this.#parts.nowMs()
    const sightMs = this.#sights.firstMs(kid, nowMs)
    const { isFailing, readAtMs, askableAtMs } = this.#news
    if (!isFailing && readAtMs < sightMs && (this.#isAsked || nowMs >= askableAtMs)) return this.#ask()
    end(this.#problemOf(sightMs))
  }

  /** Only a set that was read after the key had been seen proves that its issuer has no such key. */
  #problemOf(sightMs: number): KeyProblem {
    const { isFailing, readAtMs } = this.#news
    return this.#current === undefined || isFailing || readAtMs < sightMs ? 'keys_unavailable' : 'unknown_key'
  }
}

/** Unknown keys that are remembered for a set, half of them in each generation. One that is forgotten counts as never seen. */
const MAX_SIGHTS = 1000

/** When keys were first seen that were not in the set. Generations are dropped whole: finding the oldest entry of a Map passes over all deleted ones. */
class Sights {
  #young = new Map<string, number>()
  #old = new Map<string, number>()

  firstMs(kid: string | undefined, nowMs: number): number {
    if (kid === undefined) return nowMs
    const known = this.#young.get(kid) ?? this.#old.get(kid)
    if (known !== undefined) return known
    if (this.#young.size >= MAX_SIGHTS / 2) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(kid, nowMs)
    return nowMs
  }

  /** These are known now. If one is withdrawn and comes back, it counts as new. */
  forget(kids: readonly string[]): void {
    for (const kid of kids) {
      this.#young.delete(kid)
      this.#old.delete(kid)
    }
  }
}

function callLater(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms).unref()
  return () => clearTimeout(timer)
}
