import type { Logger } from 'pino'
import type { ActivitySample } from '../../admin/api/instance-types.ts'
import type { InstanceActivity } from '../../admin/endpoints/activity-endpoints.ts'
import type { ConnectionShares } from '../../listen/connection-slots.ts'
import type { SharedTable } from '../../store/table/shared-table.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import { inSlices } from '../../time/slices.ts'
import type { ControlHandlers } from '../control-calls.ts'
import { MetricLook, WorkerFigures } from './metric-look.ts'
import { RecentActivity } from './recent-activity.ts'
import { RecentUsage } from './recent-usage.ts'

/** Records the instance's recent activity for operators. */
export class ActivityControl {
  readonly recent: RecentActivity
  readonly sampler: ActivitySampler
  readonly usage: RecentUsage

  constructor(parts: ActivitySamplerParts) {
    const { memory, logger, clock } = parts
    this.recent = new RecentActivity({ memory, logger, nowMs: () => clock.nowMs() })
    this.sampler = new ActivitySampler(parts)
    this.usage = new RecentUsage({ memory, logger, clock })
  }

  stop(): void {
    this.recent.stop()
    this.sampler.stop()
    this.usage.stop()
  }
}

/** Handlers of workers' calls about activity. `control` is undefined without an admin token; then nobody calls them. */
export function activityCalls(control: ActivityControl | undefined): Pick<ControlHandlers, 'activity' | 'recent_samples' | 'usage'> {
  return {
    activity: (policies) => control!.recent.of(policies),
    recent_samples: (since) => control!.sampler.since(since),
    usage: (rules) => control!.usage.of(rules),
  }
}

const INTERVAL_MS = 2000
/** How early a timer may fire. */
const SLACK_MS = 100

interface ActivitySamplerParts {
  readonly memory: MetricMemory
  readonly shares: ConnectionShares
  readonly table: Pick<SharedTable, 'occupiedSlots' | 'forcedEvictions'>
  readonly isProxy: boolean
  /** Whether counters are in Redis. */
  readonly isFleet: boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Samples the instance's activity every two seconds from the metrics of all threads, at no cost to the threads that count. */
class ActivitySampler {
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

  /** Returns the samples after the one of this time, or all of them. If a sample is due, it is taken first. */
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

/** A quarter of an hour, at one sample every two seconds. */
const MAX_SAMPLES = 450
/** Bound on all texts together, because names of policies and rules may be long. The oldest samples are dropped first. */
const MAX_CHARACTERS = 1024 * 1024
/** The samples of a minute and a few seconds. */
const BUSIEST_OF = 33

interface KeptSample {
  readonly time: string
  readonly text: string
  /** The policies that decided most. */
  readonly busiest: readonly string[]
}

/** The samples of the last quarter of an hour, in bounded memory. */
export class RecentSamples {
  /** Ordered from the oldest to the newest. */
  readonly #samples: KeptSample[] = []
  #characters = 0

  add(time: string, text: string, busiest: readonly string[]): void {
    this.#samples.push({ time, text, busiest })
    this.#characters += text.length
    while (this.#samples.length > MAX_SAMPLES || (this.#characters > MAX_CHARACTERS && this.#samples.length > 1))
      this.#characters -= this.#samples.shift()!.text.length
  }

  /** Returns the samples after the one of this time, by position, so that a clock set back hides none; if it is unknown, those with a later time. */
  since(time: string | undefined): string[] {
    if (time === undefined) return this.#samples.map(({ text }) => text)
    const known = this.#samples.findLastIndex((sample) => sample.time === time)
    const later = known >= 0 ? this.#samples.slice(known + 1) : this.#samples.filter((sample) => sample.time > time)
    return later.map(({ text }) => text)
  }

  /** Returns every policy that decided anything in the last minute, unless there were more than a table shows. */
  busiest(): string[] {
    return [...new Set(this.#samples.slice(-BUSIEST_OF).flatMap((sample) => sample.busiest))]
  }
}
