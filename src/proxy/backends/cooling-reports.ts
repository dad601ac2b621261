import type { Logger } from 'pino'
import type { RouteMetrics } from '../../telemetry/metrics/route-metrics.ts'
import { Sampler } from '../../telemetry/sampler.ts'
import type { Clock } from '../../time/clock.ts'
import { HEALTH } from './backend-health.ts'
import { MODEL_TEXT_BYTES } from './backend-slots.ts'
import type { CoolingReason } from './cooling-record.ts'

/** So many changes of a backend are logged by each worker in a minute: clients can invent models that a provider refuses. */
const MAX_LINES = 10
const MINUTE_MS = 60_000

interface HealthChange {
  /** Bits of `HEALTH`. */
  readonly changes: number
  readonly backend: string
  readonly model: string | undefined
  /** Undefined if the call succeeded. */
  readonly reason: CoolingReason | undefined
  /** On the clock of the process. */
  readonly untilMs: number
  /** Whether the backend itself has said for how long. */
  readonly hasRetryAfter: boolean
}

/** Counts and logs that backends, or models of them, begin to cool and recover. A state is shared by all workers, so each change is reported once. */
export class CoolingReports {
  readonly #metrics: RouteMetrics
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #lines = new Sampler<string>(new Map(), MAX_LINES, MINUTE_MS)

  constructor(metrics: RouteMetrics, logger: Logger, clock: Clock) {
    this.#metrics = metrics
    this.#logger = logger
    this.#clock = clock
  }

  note(change: HealthChange): void {
    const { changes, backend, reason } = change
    if ((changes & HEALTH.recovered) !== 0) this.#logRecovered(backend, undefined)
    if ((changes & HEALTH.modelRecovered) !== 0) this.#logRecovered(backend, change.model)
    if ((changes & (HEALTH.cooled | HEALTH.modelCooled)) === 0) return
    this.#metrics.countCooling(backend, String(reason))
    this.#logCooling(change)
  }

  #logCooling({ changes, backend, model, reason, untilMs, hasRetryAfter }: HealthChange): void {
    const nowMs = this.#clock.nowMs()
    const unlogged = this.#lines.admit(`cooling ${backend}`, nowMs)
    if (unlogged === undefined) return
    const until = new Date(this.#clock.wallMs() + untilMs - nowMs).toISOString()
    const ofModel = (changes & HEALTH.modelCooled) !== 0 ? modelFields(model) : {}
    this.#logger.warn(
      { event: 'backend_cooling', backend, ...ofModel, reason: String(reason), until, retry_after: hasRetryAfter, unlogged },
      'requests go to other backends for a while, if there are any',
    )
  }

  #logRecovered(backend: string, model: string | undefined): void {
    const unlogged = this.#lines.admit(`recovered ${backend}`, this.#clock.nowMs())
    if (unlogged === undefined) return
    this.#logger.info({ event: 'backend_recovered', backend, ...modelFields(model), unlogged }, 'the backend answers again')
  }
}

/** A request may have no model; then all requests without one have cooled. */
function modelFields(model: string | undefined): object {
  return model === undefined ? {} : { model: model.slice(0, MODEL_TEXT_BYTES) }
}
