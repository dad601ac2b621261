import type { Logger } from 'pino'
import type { InstanceActivity } from '../../admin/api/activity-endpoints.ts'
import type { ActivitySample } from '../../admin/api/instance-types.ts'
import type { ConnectionShares } from '../../listen/connection-slots.ts'
import type { SharedTable } from '../../store/table/shared-table.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import { inSlices } from '../../time/slices.ts'
import type { ControlHandlers } from '../control-calls.ts'
import { MetricLook, WorkerFigures } from './metric-look.ts'
import { RecentActivity } from './recent-activity.ts'
import { RecentUsage } from './recent-usage.ts'

/** What the instance has done lately, noted for operators. */
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

/** What workers ask the main thread about it. Undefined without an admin token: then nobody asks. */
export function activityCalls(control: ActivityControl | undefined): Pick<ControlHandlers, 'activity' | 'recent_samples' | 'usage'> {
  return {
    activity: (policies) => control!.recent.of(policies),
    recent_samples: (since) => control!.sampler.since(since),
    usage: (rules) => control!.usage.of(rules),
  }
}

const INTERVAL_MS = 2000
/** A timer may be this much early. */
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

/** Notes every two seconds what the instance has done since, from the metrics of all threads. Those who count notice nothing of it. */
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

/** A quarter of an hour, at one every two seconds. */
const MAX_SAMPLES = 450
/** Of all texts together: names of policies and rules may be long. The oldest samples go first. */
const MAX_CHARACTERS = 1024 * 1024
/** A minute, and a little more. */
const BUSIEST_OF = 33

interface KeptSample {
  readonly time: string
  readonly text: string
  /** The policies that decided most. */
  readonly busiest: readonly string[]
}

/** The samples of the last quarter of an hour, in bounded memory. */
export class RecentSamples {
  /** The oldest first. */
  readonly #samples: KeptSample[] = []
  #characters = 0

  add(time: string, text: string, busiest: readonly string[]): void {
    this.#samples.push({ time, text, busiest })
    this.#characters += text.length
    while (this.#samples.length > MAX_SAMPLES || (this.#characters > MAX_CHARACTERS && this.#samples.length > 1))
      this.#characters -= this.#samples.shift()!.text.length
  }

  /** Those after the sample of this time; where there is none, those of a later time. A clock that was set back hides nothing from those who ask on. */
  since(time: string | undefined): string[] {
    if (time === undefined) return this.#samples.map(({ text }) => text)
    const known = this.#samples.findLastIndex((sample) => sample.time === time)
    const later = known >= 0 ? this.#samples.slice(known + 1) : this.#samples.filter((sample) => sample.time > time)
    return later.map(({ text }) => text)
  }

  /** Whatever decided anything in the last minute is among them, or there are more than a table shows. */
  busiest(): string[] {
    return [...new Set(this.#samples.slice(-BUSIEST_OF).flatMap((sample) => sample.busiest))]
  }
}
