import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { ServerConfig } from '../config/config.ts'
import type { Deadlines } from '../store/redis/link/deadlines.ts'
import type { EventTap } from '../telemetry/events/event-tap.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { ControlLink } from './control/control-link.ts'
import type { SharedMemory } from './shared-memory.ts'
import type { FromWorker } from './threads/messages.ts'

/** What a worker is started with. */
export interface WorkerParts {
  readonly config: ServerConfig
  readonly memory: SharedMemory
  /** From 1. */
  readonly worker: number
  readonly clock: Clock
  readonly logger: Logger
  /** Taps the logger; undefined where the main thread hears what it logs, or nobody can watch. */
  readonly tap?: EventTap | undefined
  readonly send: (message: FromWorker) => void
  /** Deadlines of calls to Redis; real time unless a test holds it. */
  readonly deadlines?: Deadlines | undefined
}

/** What every phase of a worker's start may use. */
export interface WorkerContext extends WorkerParts {
  /** This worker's lane of the metrics. */
  readonly metricMemory: MetricMemory
  /** Asks the main thread on behalf of operators. */
  readonly control: ControlLink
}
