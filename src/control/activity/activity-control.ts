import type { Logger } from 'pino'
import type { ActivityRange, ActivitySample } from '../../admin/api/instance-types.ts'
import type { InstanceActivity, SamplesAsk } from '../../admin/endpoints/activity-endpoints.ts'
import type { ConnectionShares } from '../../listen/connection-slots.ts'
import type { SharedTable } from '../../store/table/shared-table.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import { inSlices } from '../../time/slices.ts'
import type { ControlHandlers } from '../control-calls.ts'
import { GaugePeaks, MetricLook, WorkerFigures } from './metric-look.ts'
import { RecentActivity } from './recent-activity.ts'
import { RecentUsage } from './recent-usage.ts'
import { OpenSpan, RecentSamples, SAMPLE_RANGES } from './sample-ranges.ts'

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
    recent_samples: (ask) => control!.sampler.since(ask),
    usage: (rules) => control!.usage.of(rules),
  }
}

const INTERVAL_MS = SAMPLE_RANGES['15m'].intervalMs
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

/**
 * Samples the instance's activity every two seconds from the metrics of all threads, at no cost to the threads that count. The looks of longer ranges are
 * added up, so that each of these has samples of its own, which are as exact.
 */
class ActivitySampler {
  readonly #parts: ActivitySamplerParts
  readonly #look: MetricLook
  readonly #workers: WorkerFigures
  readonly #samples = new RecentSamples(SAMPLE_RANGES['15m'].lengthMs)
  readonly #longer = Array.from(LONGER_RANGES, (range, span) => new LongerRange(range, span))
  readonly #peaks = new GaugePeaks(LONGER_RANGES.length)
  #lastMs: number
  #lastWallMs: number
  #evictions: number
  #timer: NodeJS.Timeout | undefined
  #sampling: Promise<void> | undefined
  #isStopped = false

  constructor(parts: ActivitySamplerParts) {
    this.#parts = parts
    this.#look = new MetricLook(parts.memory, LONGER_RANGES.length)
    this.#workers = new WorkerFigures(parts.memory, parts.shares)
    this.#lastMs = parts.clock.nowMs()
    this.#lastWallMs = parts.clock.wallMs()
    this.#evictions = parts.table.forcedEvictions
    this.#wait()
  }

  /** Returns the samples of a range after the one of this time, or all of them. If a sample is due, it is taken first. */
  async since({ range, since }: SamplesAsk): Promise<InstanceActivity> {
    await this.#sampleIfDue()
    const interval_s = SAMPLE_RANGES[range].intervalMs / 1000
    const { samples } = this.#longer.find(({ name }) => name === range) ?? { samples: this.#samples }
    return { interval_s, samples: samples.since(since), workers: this.#workers.now(), busiest: this.#samples.busiest() }
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
    const { clock, table } = this.#parts
    const [nowMs, wallMs] = [clock.nowMs(), clock.wallMs()]
    const elapsedMs = nowMs - this.#lastMs
    for (const range of this.#longer) if (range.span.isBrokenBy(elapsedMs, wallMs - this.#lastWallMs)) yield* this.#endSpan(range)
    this.#lastMs = nowMs
    this.#lastWallMs = wallMs
    const { occupiedSlots, forcedEvictions } = table
    const evicted = forcedEvictions - this.#evictions
    this.#evictions = forcedEvictions
    const sample: ActivitySample = {
      ...this.#timeOf(elapsedMs),
      ...(yield* this.#look.steps()),
      memory_bytes: this.#peaks.note('memory_bytes', process.memoryUsage.rss()),
      store: { occupied: this.#peaks.note('occupied', occupiedSlots), evicted },
      ...(yield* this.#remoteSteps()),
    }
    this.#workers.look()
    this.#samples.add(sample.time, JSON.stringify(sample), this.#look.busiest)
    for (const range of this.#longer) {
      range.add(elapsedMs, evicted)
      if (range.span.isFull) yield* this.#endSpan(range)
    }
  }

  /** Makes a sample of what was added up. It ends with the last look. */
  *#endSpan(range: LongerRange): Generator<void> {
    const { index, span, samples } = range
    if (span.isEmpty) return
    const sample: ActivitySample = {
      ...this.#timeOf(span.end()),
      ...(yield* this.#look.steps(index)),
      memory_bytes: this.#peaks.take(index, 'memory_bytes'),
      store: { occupied: this.#peaks.take(index, 'occupied'), evicted: range.takeEvicted() },
      ...(yield* this.#remoteSteps(index)),
    }
    samples.add(sample.time, JSON.stringify(sample))
  }

  #timeOf(coveredMs: number): Pick<ActivitySample, 'time' | 'seconds'> {
    return { time: new Date(this.#lastWallMs).toISOString(), seconds: Math.round(coveredMs) / 1000 }
  }

  *#remoteSteps(span?: number): Generator<void, Pick<ActivitySample, 'backend' | 'redis'>> {
    const { isProxy, isFleet } = this.#parts
    const backend = isProxy ? yield* this.#look.backendSteps(span) : null
    const redis = isFleet ? yield* this.#look.redisSteps(span) : null
    return { backend, redis }
  }
}

const LONGER_RANGES: readonly ActivityRange[] = ['1h', '6h', '24h']

/** The samples of a range that is longer than the one of every look, and what the next one of them has so far. */
class LongerRange {
  readonly name: ActivityRange
  /** Index of the span in which looks are added up. */
  readonly index: number
  readonly span: OpenSpan
  readonly samples: RecentSamples
  #evicted = 0

  constructor(name: ActivityRange, index: number) {
    const { intervalMs, lengthMs } = SAMPLE_RANGES[name]
    this.name = name
    this.index = index
    this.span = new OpenSpan(intervalMs)
    this.samples = new RecentSamples(lengthMs)
  }

  add(elapsedMs: number, evicted: number): void {
    this.span.add(elapsedMs)
    this.#evicted += evicted
  }

  takeEvicted(): number {
    const evicted = this.#evicted
    this.#evicted = 0
    return evicted
  }
}
