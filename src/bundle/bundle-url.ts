import { diskAnswer } from '../files/disk-answer.ts'
import type { BundleCache } from './bundle-cache.ts'
import { type BundleIntake, type IntakeResult, type RefusedBundle, refused } from './bundle-intake.ts'
import { BundleReport, type ReportParts } from './bundle-report.ts'
import { type BundleAnswer, requestBundle } from './bundle-request.ts'
import { type BundleSource, isSameBundle, type OfferedBundle, type SourceStatus } from './bundle-source.ts'
import { pollDelayMs } from './poll-delay.ts'
import { shownUrl } from './shown-url.ts'

export interface BundleUrlParts extends ReportParts {
  readonly url: URL
  readonly token: string | undefined
  readonly pollMs: number
  readonly userAgent: string
  readonly cache: BundleCache | undefined
  readonly intake: BundleIntake
  /** Hears that the source has the active bundle. */
  readonly onGoodPoll: () => void
}

const REQUEST_TIMEOUT_MS = 10_000
/** Who reloads while a reload is under way waits this long for it. So a burst of signals is no burst of requests. */
const RELOAD_PATIENCE_MS = 1000

/** Asks a URL for the bundle again and again, and starts from the cache where there is one. */
export class BundleUrl implements BundleSource {
  readonly #parts: BundleUrlParts
  readonly #report: BundleReport
  #isStopped = false
  #isCached = false
  /** Of the active bundle alone, so that 304 says that the source has it. */
  #etag: string | undefined
  /** What the last poll had to complain of; empty: nothing. Undefined: whatever comes is news. */
  #problem: string | undefined
  #refused: { readonly bundle: OfferedBundle; readonly taken: RefusedBundle } | undefined
  #failures = 0
  #starting: Promise<void> = Promise.resolve()
  #polling: Promise<void> | undefined
  /** Of the poll under way. */
  #request = new AbortController()
  #isReload = false
  /** Waits for its turn. */
  #nextReload: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BundleUrlParts) {
    this.#parts = parts
    this.#report = new BundleReport({ url: shownUrl(parts.url) }, parts)
  }

  get status(): SourceStatus {
    return { isCached: this.#isCached, problem: this.#report.problem, isDiskSlow: this.#parts.cache?.isSlow ?? false }
  }

  async start(): Promise<void> {
    this.#starting = this.#startFromCache()
    await this.#starting
    await this.#poll()
  }

  /** Whoever comes before it has its turn gets the same one. */
  reload(): Promise<void> {
    this.#nextReload ??= this.#reloadNext()
    return this.#nextReload
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#request.abort()
    clearTimeout(this.#timer)
    await diskAnswer(this.#polling ?? Promise.resolve()).catch(() => {}) // it may be about to write the cache
    await this.#parts.cache?.close()
  }

  /** What is on its way may hang, and was asked for before the operator knew better. */
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

  /** Its bundle goes through the same gate, and from then on only a newer one does. */
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

  /** One at a time; whoever comes meanwhile gets the same one. */
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
    const { url, token, userAgent, cache, onGoodPoll } = this.#parts
    let answer: BundleAnswer
    try {
      answer = await requestBundle({ url, token, userAgent, etag: this.#etag, timeoutMs: REQUEST_TIMEOUT_MS, signal })
    } catch (error) {
      if (signal.aborted) return
      this.#failures++
      this.#report.unreadable(error as Error, this.#isNews((error as Error).message))
      return
    }
    if (signal.aborted) return
    this.#failures = 0
    try {
      if ((await this.#take(answer)) === 'refused') return
      onGoodPoll()
      cache?.save()
    } catch (error) {
      this.#report.unreadable(error as Error, this.#isNews((error as Error).message))
    }
  }

  async #take(answer: BundleAnswer): Promise<IntakeResult['result']> {
    const taken = await this.#resultOf(answer)
    if (taken.result !== 'refused') this.#isCached = false
    if (answer.kind === 'bundle' && taken.result !== 'refused') {
      this.#etag = answer.etag
      // The same bytes may come with another signature, when signing begins or a key changes.
      if (this.#parts.intake.isVouchedFor(answer.bundle)) this.#parts.cache?.keep(answer.bundle)
    }
    const isNews = this.#isNews(taken.result === 'refused' ? JSON.stringify(taken.problems) : '')
    this.#report.taken(taken, isNews || taken.result === 'applied')
    return taken.result
  }

  async #resultOf(answer: BundleAnswer): Promise<IntakeResult> {
    switch (answer.kind) {
      case 'unchanged':
        return { result: 'unchanged' }
      case 'wrong_content':
        return refused(answer.problem)
      case 'bundle':
        return this.#offer(answer.bundle)
    }
  }

  /** What was refused is not tried again: it may have cost workers their lives. */
  async #offer(bundle: OfferedBundle): Promise<IntakeResult> {
    if (this.#refused !== undefined && isSameBundle(this.#refused.bundle, bundle)) return this.#refused.taken
    const taken = await this.#parts.intake.offer(bundle)
    this.#refused = taken.result === 'refused' ? { bundle, taken } : undefined
    return taken
  }

  /** The same as last time is none. */
  #isNews(problem: string): boolean {
    const isNews = problem !== this.#problem
    this.#problem = problem
    return isNews
  }

  #scheduleNext(): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => void this.#poll(), pollDelayMs(this.#parts.pollMs, this.#failures, Math.random()))
    this.#timer.unref()
  }
}
