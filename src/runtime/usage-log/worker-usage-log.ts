import type { Logger } from 'pino'
import type { FromWorker } from '../../control/thread-messages.ts'
import type { CallerDigest } from '../../engine/decide-options.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { type ChargedRule, UsageLogMetrics } from '../../telemetry/metrics/usage-log-metrics.ts'
import { Sampler } from '../../telemetry/sampler.ts'
import type { Clock } from '../../time/clock.ts'
import { isMoney, type SettledCharge, type SettledRequest, usageLine } from '../../usage-log/usage-line.ts'

/** Pause before each batch, the first included. With the time that the disk takes, a line is written well within a second. */
const BATCH_MS = 100
/** Longest line. A request that hundreds of rules cover may exceed it, and is counted as lost. */
const MAX_LINE_CHARACTERS = 64 * 1024
/** Bound on the lines that wait while the previous batch is being written: some 4,000 requests. */
const MAX_CHARACTERS = 4 * 1024 * 1024

export interface WorkerUsageLogParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly callerDigest: CallerDigest
  readonly metricMemory: MetricMemory
  readonly send: (message: FromWorker) => void
}

/**
 * A worker's part of EDGE_USAGE_DIR: gathers a line for each settled request and sends them to the main thread, one batch at a time. Lines that do not fit
 * are lost and counted with what they were charged, so a slow disk costs neither time nor memory here.
 */
export class WorkerUsageLog {
  readonly #parts: WorkerUsageLogParts
  readonly #metrics: UsageLogMetrics
  readonly #failureLog = new Sampler<string>(new Map())
  #waiting: { readonly hour: string; lines: string }[] = []
  #characters = 0
  #lostSince = 0
  #isUnderWay = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: WorkerUsageLogParts) {
    this.#parts = parts
    this.#metrics = new UsageLogMetrics(parts.metricMemory)
  }

  /** Never throws: the request is settled, and a failure to log it must not affect it. */
  readonly note = (settled: SettledRequest): void => {
    const { clock, callerDigest, logger } = this.#parts
    const rules = settled.charges.map(chargedRule)
    try {
      this.#add(usageLine(settled, clock.wallMs(), callerDigest), rules)
    } catch (error) {
      this.#metrics.countLost('internal_error', rules)
      if (this.#failureLog.admit('', clock.nowMs()) === undefined) return
      logger.error({ event: 'internal_error', err: error }, 'a request could not be written to the usage log')
    }
  }

  /** The last batch was written, or was lost. */
  noteTaken(): void {
    this.#isUnderWay = false
    if (this.#characters > 0) this.#schedule()
  }

  /** Sends all waiting lines now, even if a batch is still under way. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#characters === 0) return
    this.#isUnderWay = true
    this.#parts.send({ type: 'usage_lines', hours: this.#waiting, lost: this.#lostSince })
    this.#metrics.clearWaiting()
    this.#waiting = []
    this.#characters = 0
    this.#lostSince = 0
  }

  #add(line: string, rules: readonly ChargedRule[]): void {
    if (line.length > MAX_LINE_CHARACTERS) return this.#metrics.countLost('too_long', rules)
    if (this.#characters + line.length > MAX_CHARACTERS) {
      this.#lostSince++
      return this.#metrics.countLost('disk_slow', rules)
    }
    const hour = hourOf(line)
    const last = this.#waiting.at(-1)
    if (last?.hour === hour) last.lines += line
    else this.#waiting.push({ hour, lines: line })
    this.#characters += line.length
    this.#metrics.countWaiting(rules)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isUnderWay || this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.flush(), BATCH_MS).unref()
  }
}

function chargedRule({ charge, amount }: SettledCharge): ChargedRule {
  return { policy: charge.rule.policy.id, rule: charge.rule.name, amount, isMoney: isMoney(charge) }
}

const TIME_AT = '{"time":"'.length

/** A line begins with its time, so that a line is in the file of its own hour. */
function hourOf(line: string): string {
  return line.slice(TIME_AT, TIME_AT + '2026-11-18T10'.length)
}
