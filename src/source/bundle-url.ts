import type { BundleCache } from './bundle-cache.ts'
import { type BundleIntake, type IntakeResult, type RefusedBundle, refused } from './bundle-intake.ts'
import { BundleReport, type ReportParts } from './bundle-report.ts'
import { type BundleAnswer, requestBundle } from './bundle-request.ts'
import type { BundleSource, OfferedBundle } from './bundle-source.ts'
import { pollDelayMs } from './poll-delay.ts'

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

/** Asks a URL for the bundle again and again, and starts from the cache where there is one. */
export class BundleUrl implements BundleSource {
  readonly #parts: BundleUrlParts
  readonly #report: BundleReport
  readonly #stopping = new AbortController()
  /** Of the active bundle alone, so that 304 says that the source has it. */
  #etag: string | undefined
  /** What the last poll had to complain of; empty: nothing. Undefined: whatever comes is news. */
  #problem: string | undefined
  #refused: { readonly bundle: OfferedBundle; readonly taken: RefusedBundle } | undefined
  #failures = 0
  #polling: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(parts: BundleUrlParts) {
    this.#parts = parts
    this.#report = new BundleReport({ url: shownUrl(parts.url) }, parts)
  }

  async start(): Promise<void> {
    await this.#startFromCache()
    await this.#poll()
  }

  async reload(): Promise<void> {
    await this.#polling
    this.#etag = undefined
    this.#refused = undefined
    this.#problem = undefined
    await this.#poll()
  }

  stop(): void {
    this.#stopping.abort()
    clearTimeout(this.#timer)
  }

  /** Its bundle goes through the same gate, and from then on only a newer one does. */
  async #startFromCache(): Promise<void> {
    const { cache, intake } = this.#parts
    if (cache === undefined) return
    const report = new BundleReport({ path: cache.path }, this.#parts)
    try {
      const bundle = await cache.read()
      if (bundle !== undefined) report.taken(await intake.offer(bundle))
    } catch (error) {
      report.unreadable(error as Error)
    }
  }

  /** One at a time; whoever comes meanwhile gets the same one. */
  #poll(): Promise<void> {
    clearTimeout(this.#timer)
    this.#polling ??= this.#pollNow().finally(() => {
      this.#polling = undefined
      this.#scheduleNext()
    })
    return this.#polling
  }

  async #pollNow(): Promise<void> {
    const { url, token, userAgent, cache, onGoodPoll } = this.#parts
    const { signal } = this.#stopping
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
    if ((await this.#take(answer)) === 'refused') return
    onGoodPoll()
    await cache?.save()
  }

  async #take(answer: BundleAnswer): Promise<IntakeResult['result']> {
    const taken = await this.#resultOf(answer)
    if (answer.kind === 'bundle' && taken.result !== 'refused') this.#etag = answer.etag
    if (answer.kind === 'bundle' && taken.result === 'applied') this.#parts.cache?.keep(answer.bundle)
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
    if (this.#refused !== undefined && isSame(this.#refused.bundle, bundle)) return this.#refused.taken
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
    if (this.#stopping.signal.aborted) return
    this.#timer = setTimeout(() => void this.#poll(), pollDelayMs(this.#parts.pollMs, this.#failures, Math.random()))
    this.#timer.unref()
  }
}

function isSame(one: OfferedBundle, other: OfferedBundle): boolean {
  return one.signature === other.signature && one.format === other.format && Buffer.compare(one.bytes, other.bytes) === 0
}

/** A query may hold a secret. */
export function shownUrl({ origin, pathname, search }: URL): string {
  return `${origin}${pathname}${search === '' ? '' : '?…'}`
}
