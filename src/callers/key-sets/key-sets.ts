import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { KeySetJson } from '../../admin/api/instance-types.ts'
import { shownUrl } from '../../outbound/allowed-hosts.ts'
import { CounterFamily } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { FollowedKeySet, type FollowParts, type KeySetReading } from './followed-key-set.ts'
import type { KeySetsChange } from './key-set-news.ts'
import { fileOf, type KeySetEntry, type KeySource, keySourceOf } from './key-source.ts'

export interface KeySetsParts extends FollowParts {
  readonly logger: Logger
  readonly metrics: MetricMemory
  /** Tells all workers. */
  readonly announce: (change: KeySetsChange) => void
  /** Waits for the first reading of a new set before its bundle becomes active. */
  readonly pause?: ((ms: number) => Promise<unknown>) | undefined
}

/** A bundle becomes active after this time even if a key set that it is the first to name has not been read. */
const FIRST_READING_MS = 2000
const LOOK_MS = 1000
/** Enough to show why keys are not used. */
const MAX_LOGGED_KEYS = 10

/** The key sets that the active bundle names, on the main thread: fetches or watches them, and tells the workers. */
export class KeySets {
  readonly #parts: KeySetsParts
  readonly #sets = new Map<KeySource, FollowedKeySet>()
  readonly #metrics: KeySetMetrics
  /** Entries of the active bundle. */
  #entries: readonly KeySetEntry[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(parts: KeySetsParts) {
    this.#parts = parts
    this.#metrics = new KeySetMetrics(parts.metrics)
  }

  /** All that a worker must know that starts now. */
  get all(): KeySetsChange {
    return { changed: Array.from(this.#sets.values(), (set) => set.news(true)), gone: [] }
  }

  /**
   * Makes a bundle active together with its key sets. Sets that the bundle before named too are used on; others are read first, so that the bundle's
   * first requests find them. If `activate` throws, the sets of the bundle before stay.
   */
  async switchTo(entries: readonly KeySetEntry[], activate: () => Promise<void>): Promise<void> {
    const before = this.#entries
    await this.#prepare(entries)
    try {
      await activate()
      this.#use(entries, before)
    } catch (error) {
      this.#use(before, entries)
      throw error
    }
  }

  /** A worker has met a key that is not in this set. */
  ask(source: KeySource): void {
    const set = this.#sets.get(source)
    // The worker gets an answer in any case, because requests wait for it.
    if (set === undefined) this.#parts.announce({ changed: [], gone: [source] })
    else if (!set.ask()) this.#parts.announce({ changed: [set.news(false)], gone: [] })
  }

  /** Reads all sets again, for an operator who does not want to wait until they are due. */
  async readAgain(): Promise<void> {
    await Promise.all(Array.from(this.#sets.values(), (set) => set.readAgain()))
  }

  /** Describes the sets of the active bundle's entries, for operators. */
  describe(): KeySetJson[] {
    return this.#entries.map((entry) => {
      const set = this.#sets.get(keySourceOf(entry))!
      return {
        issuer: entry.name,
        url: null,
        path: null,
        ...shownSource(set.source, this.#parts.secretsDir),
        keys: set.keys?.usable.length ?? 0,
        read_at: timeText(set.goodAtMs),
        problem: set.problem ?? null,
        failing_since: timeText(set.failingSinceMs),
      }
    })
  }

  /** Fetches the sets that are due. A timer calls it. */
  refreshDue(): void {
    for (const set of this.#sets.values()) set.refreshIfDue()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const set of this.#sets.values()) set.stop()
  }

  async #prepare(entries: readonly KeySetEntry[]): Promise<void> {
    const { announce, pause = unobtrusively } = this.#parts
    const added: FollowedKeySet[] = []
    for (const [source, names] of namesBySource(entries)) {
      const known = this.#sets.get(source)
      const set = known ?? new FollowedKeySet(source, this.#parts, (read, reading) => this.#noteReading(read, reading))
      const newNames = names.filter((name) => !set.names.has(name))
      set.names = new Set([...set.names, ...names])
      this.#sets.set(source, set)
      if (known === undefined) added.push(set)
      else for (const name of newNames) this.#noteName(name, known)
    }
    if (added.length === 0) return
    announce({ changed: added.map((set) => set.news(false)), gone: [] })
    await Promise.race([Promise.all(added.map((set) => set.start())), pause(FIRST_READING_MS)])
  }

  /** Follows the sets of these entries alone. `others` may have been followed until now. */
  #use(entries: readonly KeySetEntry[], others: readonly KeySetEntry[]): void {
    const names = namesBySource(entries)
    const gone: KeySource[] = []
    for (const [source, set] of this.#sets) {
      set.names = new Set(names.get(source))
      if (names.has(source)) continue
      set.stop()
      this.#sets.delete(source)
      gone.push(source)
    }
    if (gone.length > 0) this.#parts.announce({ changed: [], gone })
    this.#noteLeaving(entries, others)
    this.#entries = entries
    clearInterval(this.#timer)
    // It polls instead of setting a timer for each set, because that is one timer for all of them, and a look costs nothing.
    if (this.#sets.size > 0) this.#timer = setInterval(() => this.refreshDue(), LOOK_MS).unref()
  }

  #noteLeaving(entries: readonly KeySetEntry[], others: readonly KeySetEntry[]): void {
    const staying = new Set(entries.map(({ name }) => name))
    for (const { name } of others) {
      if (staying.has(name)) continue
      this.#metrics.noteLeft(name)
      this.#parts.logger.info({ event: 'key_set_dropped', issuer: name }, 'the active bundle no longer names this issuer')
    }
  }

  /** An entry takes over a set that was read before. */
  #noteName(issuer: string, set: FollowedKeySet): void {
    if (set.keys === undefined && set.problem === undefined) return
    this.#metrics.noteState(issuer, set, this.#parts.clock.wallMs())
    this.#log(issuer, set)
  }

  #noteReading(set: FollowedKeySet, { hasNewKeys, hasNewProblem }: KeySetReading): void {
    this.#parts.announce({ changed: [set.news(hasNewKeys)], gone: [] })
    for (const issuer of set.names) {
      this.#metrics.noteReading(issuer, set, this.#parts.clock.wallMs())
      // The log tells of changes, not of tries.
      if (hasNewKeys || hasNewProblem) this.#log(issuer, set)
    }
  }

  #log(issuer: string, { source, keys, problem }: FollowedKeySet): void {
    const { logger, secretsDir } = this.#parts
    const where = shownSource(source, secretsDir)
    if (problem === undefined) {
      const { usable, unused } = keys!
      const notes = unused.length === 0 ? {} : { unused: unused.slice(0, MAX_LOGGED_KEYS) }
      logger.info({ event: 'key_set_loaded', issuer, ...where, keys: usable.length, ...notes }, 'key set loaded')
    } else {
      const effect = keys === undefined ? 'no token of this issuer can be verified' : 'the previous one stays in use'
      logger.error({ event: 'key_set_failed', issuer, ...where, problem }, `key set not loaded; ${effect}`)
    }
  }
}

class KeySetMetrics {
  readonly #fetches: CounterFamily
  readonly #keys: CounterFamily
  readonly #failing: CounterFamily
  readonly #lastGoodS: CounterFamily

  constructor(memory: MetricMemory) {
    this.#fetches = new CounterFamily(memory, 'edge_key_set_fetches_total')
    this.#keys = new CounterFamily(memory, 'edge_key_set_keys')
    this.#failing = new CounterFamily(memory, 'edge_key_set_failing')
    this.#lastGoodS = new CounterFamily(memory, 'edge_key_set_last_good_timestamp_seconds')
  }

  noteReading(issuer: string, set: FollowedKeySet, wallMs: number): void {
    this.#fetches.series(issuer, set.problem === undefined ? 'good' : 'failed').count++
    this.noteState(issuer, set, wallMs)
  }

  noteState(issuer: string, { problem, keys }: FollowedKeySet, wallMs: number): void {
    this.#keys.series(issuer).count = keys?.usable.length ?? 0
    this.#failing.series(issuer).count = problem === undefined ? 0 : 1
    if (problem === undefined) this.#lastGoodS.series(issuer).count = Math.floor(wallMs / 1000)
  }

  /** Series stay once they exist, and 0 is no number of a set that tokens are verified with. */
  noteLeft(issuer: string): void {
    this.#keys.series(issuer).count = 0
    this.#failing.series(issuer).count = 0
    this.#lastGoodS.series(issuer).count = 0
  }
}

function namesBySource(entries: readonly KeySetEntry[]): Map<KeySource, string[]> {
  const names = new Map<KeySource, string[]>()
  for (const entry of entries) {
    const source = keySourceOf(entry)
    names.set(source, [...(names.get(source) ?? []), entry.name])
  }
  return names
}

/** The query of a URL may contain a secret. */
function shownSource(source: KeySource, secretsDir: string | undefined): { readonly path: string } | { readonly url: string } {
  const path = fileOf(source, secretsDir)
  return path === undefined ? { url: shownUrl(new URL(source)) } : { path }
}

function timeText(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString()
}

function unobtrusively(ms: number): Promise<void> {
  return sleep(ms, undefined, { ref: false })
}
