import type { ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { HeaderList } from '../http1/header-fields.ts'
import { respondText } from '../listen/node-http/routes.ts'
import { Exposition } from '../telemetry/metrics/exposition.ts'
import { runInSlices, TimeShare } from '../time/slices.ts'
import { acceptsGzip } from './console-page.ts'

/** Share of a worker's time that scrapes may take. Twenty thousand series take about 40 ms. */
const SHARE = 0.1
const BURST_MS = 20

interface Scrape {
  readonly res: ServerResponse
  readonly isGzip: boolean
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * GET /metrics. A worker that makes decisions gathers the text, so it works in slices and on one text at a time; requests that arrive in the meantime
 * share the next text. No text is older than the request it answers.
 */
export class MetricsEndpoint {
  readonly #exposition: Exposition
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  #waiting: Scrape[] = []
  #isGathering = false

  constructor(exposition: Exposition) {
    this.#exposition = exposition
  }

  /** Resolves when the response is sent, and rejects if there is none. */
  handle(res: ServerResponse, acceptEncoding?: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ res, isGzip: acceptsGzip(acceptEncoding), resolve, reject })
      if (!this.#isGathering) this.#gather()
    })
  }

  #gather(): void {
    this.#isGathering = true
    const waitMs = this.#time.waitMs(performance.now())
    if (waitMs > 0) setTimeout(() => this.#gather(), waitMs).unref()
    else setImmediate(() => this.#begin())
  }

  #begin(): void {
    const scrapes = this.#waiting
    this.#waiting = []
    runInSlices({
      steps: this.#steps(),
      onSlice: (workMs) => this.#time.spend(workMs, performance.now()),
      onDone: (text) => {
        this.#gatherNext()
        void respondAll(scrapes, text)
      },
      onError: (error) => {
        this.#gatherNext()
        for (const { reject } of scrapes) reject(error)
      },
    })
  }

  /** Whatever the exposition throws, even immediately, is thrown by a step. */
  *#steps(): Generator<void, Buffer> {
    return yield* this.#exposition.steps()
  }

  #gatherNext(): void {
    this.#isGathering = false
    if (this.#waiting.length > 0) this.#gather()
  }
}

/** A text is compressed once, on another thread, and to a fifth or less: neighbouring lines are alike. */
async function respondAll(scrapes: readonly Scrape[], text: Buffer): Promise<void> {
  for (const scrape of scrapes) if (!scrape.isGzip) respond(scrape, text, VARY)
  const compressed = scrapes.filter(({ isGzip }) => isGzip)
  if (compressed.length === 0) return
  try {
    const bytes = await compress(text, { level: 1 })
    for (const scrape of compressed) respond(scrape, bytes, ['Content-Encoding', 'gzip', ...VARY])
  } catch (error) {
    for (const { reject } of compressed) reject(error)
  }
}

const compress = promisify(gzip)
const VARY = ['Vary', 'Accept-Encoding']

function respond({ res, resolve, reject }: Scrape, body: Buffer, headers: HeaderList): void {
  try {
    respondText(res, 200, Exposition.contentType, body, headers)
    resolve()
  } catch (error) {
    reject(error)
  }
}
