import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { CounterFamily, type Series } from '../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'

const INTERVAL_MS = 1000

/** What a worker measures of itself, in shared memory, so that a scrape of any worker shows all of them. */
export class Vitals {
  readonly #busyRatio: Series
  readonly #heapBytes: Series
  readonly #timer: NodeJS.Timeout
  #before: EventLoopUtilization

  constructor(memory: MetricMemory, worker: number) {
    this.#busyRatio = new CounterFamily(memory, 'edge_worker_busy_ratio').series(String(worker))
    this.#heapBytes = new CounterFamily(memory, 'edge_worker_heap_bytes').series(String(worker))
    this.#before = performance.eventLoopUtilization()
    this.#timer = setInterval(() => this.#measure(), INTERVAL_MS)
    this.#timer.unref()
    this.#measure()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #measure(): void {
    const now = performance.eventLoopUtilization()
    this.#busyRatio.count = performance.eventLoopUtilization(now, this.#before).utilization
    this.#before = now
    this.#heapBytes.count = getHeapStatistics().used_heap_size
  }
}
