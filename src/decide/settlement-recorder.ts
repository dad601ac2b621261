import type { Logger } from 'pino'
import type { IssueOutcome, SettleError } from '../reservations/reservations.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'

interface SettlementRecorderParts {
  readonly metricMemory: MetricMemory
  readonly clock: Clock
  readonly logger: Logger
}

/** Counts reservations and their settlements. Failures are logged, at most one line per reason and second. */
export class SettlementRecorder {
  readonly #parts: SettlementRecorderParts
  readonly #issued: CounterFamily
  readonly #settled: CounterFamily
  readonly #byReason = new Sampler<string>(new Map())

  constructor(parts: SettlementRecorderParts) {
    this.#parts = parts
    this.#issued = new CounterFamily(parts.metricMemory, 'edge_reservations_total')
    this.#settled = new CounterFamily(parts.metricMemory, 'edge_settlements_total')
  }

  onIssued(outcome: IssueOutcome): void {
    this.#issued.series(outcome).count++
    if (outcome === 'issued') return
    const unlogged = this.#byReason.admit(outcome, this.#parts.clock.nowMs())
    if (unlogged === undefined) return
    this.#parts.logger.warn(
      { event: 'reservation_not_issued', reason: outcome, unlogged },
      'a reservation cannot be settled, so it stays charged',
    )
  }

  onSettled(outcome: 'settled' | 'renewed' | SettleError): void {
    this.#settled.series(outcome).count++
    if (outcome === 'settled' || outcome === 'renewed') return
    const unlogged = this.#byReason.admit(outcome, this.#parts.clock.nowMs())
    if (unlogged === undefined) return
    this.#parts.logger.warn({ event: 'settlement_refused', reason: outcome, unlogged }, 'a reservation was not settled')
  }

  /** Logs a failure of our own code. The client learns only that it failed; the log has the cause. */
  logFailure(error: unknown): void {
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a settlement could not be handled')
  }
}
