import type { WorkerActivity } from '../../../admin/api/instance-types.ts'
import type { ConnectionShares } from '../../../listen/connection-shares.ts'
import { CATALOGUE } from '../../../telemetry/metrics/catalogue.ts'
import type { MetricMemory } from '../../../telemetry/metrics/metric-memory.ts'

const DECISION_TIMES = 'edge_decision_duration_seconds'

/** What each worker does, from its own part of the metric memory. */
export class WorkerFigures {
  readonly #memory: MetricMemory
  readonly #shares: ConnectionShares
  /** By worker: decisions up to the last look, and since the one before. */
  readonly #counted = new Map<number, { total: number; grown: number }>()

  constructor(memory: MetricMemory, shares: ConnectionShares) {
    this.#memory = memory
    this.#shares = shares
  }

  look(): void {
    for (const [worker] of this.#shares.all()) {
      const total = this.#decisions(worker)
      this.#counted.set(worker, { total, grown: total - (this.#counted.get(worker)?.total ?? 0) })
    }
  }

  now(): WorkerActivity[] {
    return Array.from(this.#shares.all(), ([worker, connections]) => ({
      worker,
      decisions: this.#counted.get(worker)?.grown ?? 0,
      busy_ratio: this.#gauge('edge_worker_busy_ratio', worker),
      heap_bytes: this.#gauge('edge_worker_heap_bytes', worker),
      connections,
    }))
  }

  /** All that it has ever measured the time of. The worker that takes its place counts on. */
  #decisions(worker: number): number {
    const cell = this.#memory.entriesOf(DECISION_TIMES)[0]?.cell
    if (cell === undefined) return 0
    let sum = 0
    for (let bucket = 0; bucket <= CATALOGUE[DECISION_TIMES].bounds.length; bucket++) sum += this.#memory.ofLane(worker, cell + bucket)
    return sum
  }

  #gauge(name: 'edge_worker_busy_ratio' | 'edge_worker_heap_bytes', worker: number): number {
    const entry = this.#memory.entriesOf(name).find(({ values }) => values[0] === String(worker))
    return entry === undefined ? 0 : this.#memory.sum(entry.cell)
  }
}
