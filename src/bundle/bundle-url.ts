import { withDiskTimeout } from '../files/whole-file.ts'
import { type AllowedHosts, shownUrl } from '../outbound/allowed-hosts.ts'
import { backoffMs } from '../time/clock.ts'
import type { BundleCache } from './bundle-cache.ts'
import { type BundleIntake, type IntakeResult, type RefusedBundle, refused } from './bundle-intake.ts'
import { BundleReport, type ReportParts } from './bundle-report.ts'
import { type FetchedBundle, requestBundle } from './bundle-request.ts'
import { type BundleSource, isSameBundle, type OfferedBundle, type SourceStatus } from './bundle-source.ts'

export interface BundleUrlParts extends ReportParts {
  readonly url: URL
  readonly token: string | undefined
  readonly redirectHosts: AllowedHosts
  readonly pollMs: number
  readonly userAgent: string
  readonly cache: BundleCache | undefined
  readonly intake: BundleIntake
  /** Called after each poll in which the source had the active bundle. */
  readonly onGoodPoll: () => void
}

const REQUEST_TIMEOUT_MS = 10_000
/** A reload aborts an earlier reload only after this time, so that a burst of signals does not become a burst of requests. */
const RELOAD_PATIENCE_MS = 1000

/** Polls a URL for the bundle, and starts from the cache if there is one. */
export class BundleUrl implements BundleSource {
  readonly #parts: BundleUrlParts
  readonly #report: BundleReport
  #isStopped = false
  #isCached = false
  /** ETag of the active bundle and of no other, so that a 304 means that the source still has the active one. */
  #etag: string | undefined
  /** Problem of the last poll; empty if it had none. If undefined, the next result is logged in any case. */
  #problem: string | undefined
  #refused: { readonly bundle: OfferedBundle; readonly taken: RefusedBundle } | undefined
  #failures = 0
  #starting: Promise<void> = Promise.resolve()
  #polling: Promise<void> | undefined
  /** Aborts the poll in flight. */
  #request = new AbortController()
  #isReload = false
  /** A reload that is waiting for its turn. */
  #nextReload: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BundleUrlParts) {
    this.#parts = parts
    this.#report = new BundleReport({ url: shownUrl(parts.url) }, parts)
  }

  get status(): SourceStatus {
    const { location, problem, refusal } = this.#report
    return { location, isCached: this.#isCached, problem, refusal, isDiskSlow: this.#parts.cache?.isSlow ?? false }
  }

  async start(): Promise<void> {
    this.#starting = this.#startFromCache()
    await this.#starting
    await this.#poll()
  }

  /** Calls that arrive before a waiting reload begins share it. */
  reload(): Promise<void> {
    this.#nextReload ??= this.#reloadNext()
    return this.#nextReload
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#request.abort()
    clearTimeout(this.#timer)
    await withDiskTimeout(this.#polling ?? Promise.resolve()).catch(() => {}) // the poll may be about to write the cache
    await this.#parts.cache?.close()
  }

  /** Aborts the request in flight, which may hang and is older than the operator's signal. */
  async #reloadNext(): Promise<void> {
    await this.#starting
    if (this.#polling !== undefined) {
      const request = this.#request
      const timer = setTimeout(() => request.abort(), this.#isReload ? RELOAD_PATIENCE_MS : 0).unref()
      await this.#polling
      clearTimeout(timer)
    }
    this.#nextReload = undefined
    this.#etag = undefined
    this.#refused = undefined
    this.#problem = undefined
    await this.#poll(true)
  }

  /** The cached bundle passes the same checks as any other; after that, only a newer one is accepted. */
  async #startFromCache(): Promise<void> {
    const { cache, intake } = this.#parts
    if (cache === undefined) return
    const report = new BundleReport({ path: cache.path }, this.#parts)
    try {
      const bundle = await cache.read()
      if (bundle === undefined) return
      const taken = await intake.offer(bundle)
      this.#isCached = taken.result === 'applied'
      report.taken(taken)
    } catch (error) {
      report.unreadable(error as Error)
    }
  }

  /** Runs one poll at a time; calls that arrive in the meantime share it. */
  #poll(isReload = false): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#polling === undefined) {
      this.#isReload = isReload
      this.#request = new AbortController()
      if (this.#isStopped) this.#request.abort()
      this.#polling = this.#pollNow(this.#request.signal).finally(() => {
        this.#polling = undefined
        this.#scheduleNext()
      })
    }
    return this.#polling
  }

  async #pollNow(signal: AbortSignal): Promise<void> {
    const { url, token, redirectHosts, userAgent, cache, onGoodPoll } = this.#parts
    let fetched: FetchedBundle
    try {
      fetched = await requestBundle({ url, token, redirectHosts, userAgent, etag: this.#etag, timeoutMs: REQUEST_TIMEOUT_MS, signal })
    } catch (error) {
      if (signal.aborted) return
      this.#failures++
      this.#report.unreadable(error as Error, this.#hasChanged((error as Error).message))
      return
    }
    if (signal.aborted) return
    this.#failures = 0
    try {
      if ((await this.#take(fetched)) === 'refused') return
      onGoodPoll()
      cache?.save()
    } catch (error) {
      this.#report.unreadable(error as Error, this.#hasChanged((error as Error).message))
    }
  }

  async #take(fetched: FetchedBundle): Promise<IntakeResult['result']> {
    const taken = await this.#resultOf(fetched)
    if (taken.result !== 'refused') this.#isCached = false
    if (fetched.kind === 'bundle' && taken.result !== 'refused') {
      this.#etag = fetched.etag
      // The same bytes may arrive with another signature, when signing is introduced or a key changes.
      if (this.#parts.intake.hasValidSignature(fetched.bundle)) this.#parts.cache?.keep(fetched.bundle)
    }
    const hasChanged = this.#hasChanged(taken.result === 'refused' ? JSON.stringify(taken.problems) : '')
    this.#report.taken(taken, hasChanged || taken.result === 'applied')
    return taken.result
  }

  async #resultOf(fetched: FetchedBundle): Promise<IntakeResult> {
    switch (fetched.kind) {
      case 'unchanged':
        return { result: 'unchanged' }
      case 'wrong_content':
        return refused(fetched.problem)
      case 'bundle':
        return this.#offer(fetched.bundle)
    }
  }

  /** A refused bundle is not offered again, because it may have crashed workers. */
  async #offer(bundle: OfferedBundle): Promise<IntakeResult> {
    if (this.#refused !== undefined && isSameBundle(this.#refused.bundle, bundle)) return this.#refused.taken
    const taken = await this.#parts.intake.offer(bundle)
    this.#refused = taken.result === 'refused' ? { bundle, taken } : undefined
    return taken
  }

  /** Whether the problem differs from that of the last poll. */
  #hasChanged(problem: string): boolean {
    const hasChanged = problem !== this.#problem
    this.#problem = problem
    return hasChanged
  }

  #scheduleNext(): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => void this.#poll(), pollDelayMs(this.#parts.pollMs, this.#failures, Math.random()))
    this.#timer.unref()
  }
}

/** Delay after the first failure. It doubles with each further failure, up to the usual interval between polls. */
const FIRST_RETRY_MS = 1000
/** Instances that were started together must not keep polling at the same moments. */
const JITTER = 0.1

/** Returns the delay before the next poll, after this many failures in a row. `random` is from 0 to 1. */
export function pollDelayMs(intervalMs: number, failures: number, random: number): number {
  const delayMs = failures === 0 ? intervalMs : backoffMs(FIRST_RETRY_MS, intervalMs, failures)
  return delayMs * (1 + JITTER * (2 * random - 1))
}
