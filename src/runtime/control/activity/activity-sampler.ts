import type { Logger } from 'pino'
import type { InstanceActivity } from '../../../admin/api/activity/activity-endpoint.ts'
import type { ActivitySample } from '../../../admin/api/instance-types.ts'
import type { Clock } from '../../../clock.ts'
import type { ConnectionShares } from '../../../listen/connection-shares.ts'
import { inSlices } from '../../../slices.ts'
import type { SharedTable } from '../../../store/shared-table.ts'
import type { MetricMemory } from '../../../telemetry/metrics/metric-memory.ts'
import { MetricLook } from './metric-look.ts'
import { RecentSamples } from './recent-samples.ts'
import { WorkerFigures } from './worker-figures.ts'

const INTERVAL_MS = 2000
/** A timer may be this much early. */
const SLACK_MS = 100

export interface ActivitySamplerParts {
  readonly memory: MetricMemory
  readonly shares: ConnectionShares
  readonly table: Pick<SharedTable, 'occupiedSlots' | 'forcedEvictions'>
  readonly isProxy: boolean
  /** Whether counters are in Redis. */
  readonly isFleet: boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Notes every two seconds what the instance has done since, from the metrics of all threads. Those who count notice nothing of it. */
export class ActivitySampler {
  readonly #parts: ActivitySamplerParts
  readonly #look: MetricLook
  readonly #workers: WorkerFigures
  readonly #samples = new RecentSamples()
  #lastMs: number
  #evicted: number
  #timer: NodeJS.Timeout | undefined
  #sampling: Promise<void> | undefined
  #isStopped = false

  constructor(parts: ActivitySamplerParts) {
    this.#parts = parts
    this.#look = new MetricLook(parts.memory)
    this.#workers = new WorkerFigures(parts.memory, parts.shares)
    this.#lastMs = parts.clock.nowMs()
    this.#evicted = parts.table.forcedEvictions
    this.#wait()
  }

  /** Samples after the one of this time, or all. One that is due is taken first. */
  async since(time: string | undefined): Promise<InstanceActivity> {
    await this.#sampleIfDue()
    const interval_s = INTERVAL_MS / 1000
    return { interval_s, samples: this.#samples.since(time), workers: this.#workers.now(), busiest: this.#samples.busiest() }
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #wait(): void {
    this.#timer = setTimeout(() => void this.#sampleIfDue().then(() => this.#isStopped || this.#wait()), INTERVAL_MS).unref()
  }

  #sampleIfDue(): Promise<void> {
    if (this.#parts.clock.nowMs() < this.#lastMs + INTERVAL_MS - SLACK_MS) return this.#sampling ?? Promise.resolve()
    this.#sampling ??= inSlices(this.#steps())
      .catch((err: unknown) => this.#parts.logger.error({ event: 'internal_error', err }, 'recent activity could not be recorded'))
      .finally(() => {
        this.#sampling = undefined
      })
    return this.#sampling
  }

  *#steps(): Generator<void> {
    const { clock, isProxy, isFleet, table } = this.#parts
    const nowMs = clock.nowMs()
    const seconds = (nowMs - this.#lastMs) / 1000
    this.#lastMs = nowMs
    const time = new Date(clock.wallMs()).toISOString()
    const reading = yield* this.#look.steps()
    const { occupiedSlots, forcedEvictions } = table
    const sample: ActivitySample = {
      time,
      seconds: Math.round(seconds * 1000) / 1000,
      ...reading,
      store: { occupied: occupiedSlots, evicted: forcedEvictions - this.#evicted },
      backend: isProxy ? yield* this.#look.backendSteps() : null,
      redis: isFleet ? yield* this.#look.redisSteps() : null,
    }
    this.#evicted = forcedEvictions
    this.#workers.look()
    this.#samples.add(time, JSON.stringify(sample), this.#look.busiest)
  }
}
