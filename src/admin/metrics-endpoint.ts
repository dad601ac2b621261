import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { respondText } from '../http/respond.ts'
import { inSlices } from '../slices.ts'
import { Exposition } from '../telemetry/metrics/exposition.ts'
import { TimeShare } from '../time-share.ts'

/** What scrapes may take of a worker's time. Twenty thousand series take some 20 ms. */
const SHARE = 0.1
const BURST_MS = 20

/**
 * GET /metrics. A worker that decides gathers the text, so it does that in slices, and one text at a time: whoever asks meanwhile gets the
 * next one, all the same one. No text is older than its request.
 */
export class MetricsEndpoint {
  readonly #exposition: Exposition
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  #current: Promise<unknown> = Promise.resolve()
  /** Not begun yet. */
  #next: Promise<Buffer> | undefined

  constructor(exposition: Exposition) {
    this.#exposition = exposition
  }

  async handle(res: ServerResponse): Promise<void> {
    this.#next ??= this.#gatherNext()
    respondText(res, 200, Exposition.contentType, await this.#next)
  }

  async #gatherNext(): Promise<Buffer> {
    await this.#current
    // The wait is long enough, but a timer may fire a little early.
    while (this.#waitMs() > 0) await sleep(this.#waitMs(), undefined, { ref: false })
    this.#next = undefined
    const text = inSlices(this.#exposition.steps(), (workMs) => this.#time.spend(workMs, performance.now()))
    this.#current = text.catch(() => {}) // those who wait for it learn of it
    return text
  }

  #waitMs(): number {
    return this.#time.waitMs(performance.now())
  }
}
