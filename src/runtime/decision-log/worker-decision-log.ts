import type { Logger } from 'pino'
import type { FromWorker } from '../../control/thread-messages.ts'
import type { NoteDecided } from '../../decide/question.ts'
import type { DecisionLines } from '../../decision-log/decision-lines.ts'
import type { Engine } from '../../engine/engine.ts'
import { CounterFamily, type Series } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { Sampler } from '../../telemetry/sampler.ts'
import type { Clock } from '../../time/clock.ts'

/** Pause before each batch, the first included. */
const BATCH_MS = 100
/** Longest line; those with longer paths are skipped and counted. */
const MAX_LINE_CHARACTERS = 16 * 1024
/** Bound on the lines that wait while the previous batch is being written. */
const MAX_CHARACTERS = 2 * 1024 * 1024

export interface WorkerDecisionLogParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly lines: DecisionLines
  readonly metricMemory: MetricMemory
  readonly send: (message: FromWorker) => void
}

/**
 * A worker's part of EDGE_DECISION_LOG: gathers lines and sends them to the main thread, one batch at a time. Lines that do not fit are
 * dropped and counted, so a slow disk costs neither time nor memory here.
 */
export class WorkerDecisionLog {
  readonly #parts: WorkerDecisionLogParts
  readonly #dropped: Series
  readonly #tooLong: Series
  readonly #failed: Series
  readonly #failureLog = new Sampler<string>(new Map())
  #waiting = ''
  #count = 0
  #droppedSince = 0
  #isUnderWay = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: WorkerDecisionLogParts) {
    this.#parts = parts
    const lines = new CounterFamily(parts.metricMemory, 'edge_decision_log_lines_total')
    this.#dropped = lines.series('dropped')
    this.#tooLong = lines.series('too_long')
    this.#failed = lines.series('failed')
  }

  /** Never throws: the request has been decided, and a failure to log it must not affect it. */
  readonly note: NoteDecided = (view, body, caller, sent, decidedAtMs) => {
    const { engine, clock, lines, logger } = this.#parts
    try {
      const plan = engine.active?.plan
      if (plan !== undefined) this.#add(lines.lineOf(plan, view, body, decidedAtMs ?? clock.wallMs(), caller, sent))
    } catch (error) {
      this.#failed.count++
      if (this.#failureLog.admit('', clock.nowMs()) === undefined) return
      logger.error({ event: 'internal_error', err: error }, 'a decision could not be logged')
    }
  }

  /** The last batch was written, or was lost. */
  noteTaken(): void {
    this.#isUnderWay = false
    if (this.#count > 0) this.#schedule()
  }

  /** Sends all waiting lines now, even if a batch is still under way. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#count === 0) return
    this.#isUnderWay = true
    this.#parts.send({ type: 'decision_lines', lines: this.#waiting, dropped: this.#droppedSince })
    this.#waiting = ''
    this.#count = 0
    this.#droppedSince = 0
  }

  #add(line: string): void {
    if (line.length > MAX_LINE_CHARACTERS) {
      this.#tooLong.count++
      return
    }
    if (this.#waiting.length + line.length > MAX_CHARACTERS) {
      this.#droppedSince++
      this.#dropped.count++
      return
    }
    this.#waiting += line
    this.#count++
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isUnderWay || this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.flush(), BATCH_MS).unref()
  }
}
