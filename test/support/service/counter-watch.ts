import { setTimeout as sleep } from 'node:timers/promises'
import { type Metrics, metricsOf } from './metrics.ts'

/** Between two looks. */
const BREATH_MS = 10

/** Asks /metrics again and again, each time on a new connection and so of another worker, and remembers whatever went down. */
export class CounterWatch {
  readonly falls: string[] = []
  looks = 0
  readonly #port: number
  readonly #highest = new Map<string, number>()
  readonly #over: Promise<void>
  #isOver = false

  constructor(port: number) {
    this.#port = port
    this.#over = this.#run()
  }

  /** Returns what was seen last. */
  async stop(): Promise<Metrics> {
    this.#isOver = true
    await this.#over
    return this.#look()
  }

  async #run(): Promise<void> {
    // A worker that dies takes its connections with it, and that is no news here.
    while (!this.#isOver) {
      await this.#look().catch(() => {})
      await sleep(BREATH_MS)
    }
  }

  async #look(): Promise<Metrics> {
    const metrics = await metricsOf(this.#port)
    const seen = new Map(metrics.counters())
    for (const [series, highest] of this.#highest) {
      const value = seen.get(series) ?? 0
      if (value < highest) this.falls.push(`${series}: ${highest} → ${value}`)
    }
    for (const [series, value] of seen) this.#highest.set(series, Math.max(value, this.#highest.get(series) ?? 0))
    this.looks++
    return metrics
  }
}
