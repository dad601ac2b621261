import type { Logger } from 'pino'
import { AppendedFile, linesIn, PartlyWritten } from '../../files/appended-file.ts'
import { DISK_TIMEOUT_MS, DiskTimeout, withDiskTimeout } from '../../files/whole-file.ts'
import { CounterFamily, type Series } from '../../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { Sampler } from '../../telemetry/sampler.ts'

export interface DecisionLogFileParts {
  readonly path: string
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly nowMs: () => number
  readonly diskTimeoutMs?: number | undefined
  /** Called once a worker's batch is written or lost; the worker may then send the next. */
  readonly onTaken: (worker: number) => void
}

interface Batch {
  readonly worker: number
  readonly lines: string
}

/**
 * The file of EDGE_DECISION_LOG, which the main thread writes for all workers: one write at a time, each of whole batches. Lines that cannot be
 * written are lost and counted, and the next batch tries again. If the file was renamed or removed, a new one is created.
 */
export class DecisionLogFile {
  readonly #parts: DecisionLogFileParts
  readonly #written: Series
  readonly #failed: Series
  readonly #timeoutMs: number
  readonly #drops = new Sampler<'dropped'>(new Map())
  #handle: AppendedFile | undefined
  #waiting: Batch[] = []
  #writing: Promise<void> | undefined
  #beganMs = 0
  #problem: string | undefined

  constructor(parts: DecisionLogFileParts) {
    this.#parts = parts
    this.#timeoutMs = parts.diskTimeoutMs ?? DISK_TIMEOUT_MS
    const lines = new CounterFamily(parts.metrics, 'edge_decision_log_lines_total')
    this.#written = lines.series('written')
    this.#failed = lines.series('failed')
  }

  /** Creates the file if it is missing. Throws a DecisionLogFault if it cannot be written. */
  static async check(path: string, timeoutMs = DISK_TIMEOUT_MS): Promise<void> {
    try {
      const handle = await withDiskTimeout(AppendedFile.open(path), timeoutMs)
      await handle.close()
    } catch (error) {
      throw new DecisionLogFault(path, error)
    }
  }

  /** Queues a worker's batch. `dropped` is how many lines the worker had no room for. */
  write(worker: number, lines: string, dropped: number): void {
    if (dropped > 0) this.#reportDropped(dropped)
    this.#waiting.push({ worker, lines })
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
  }

  /** Whether a write has taken so long that the disk may never respond. */
  get isSlow(): boolean {
    return this.#writing !== undefined && this.#parts.nowMs() - this.#beganMs > this.#timeoutMs
  }

  /** To be called once workers send nothing more. Gives up on a hung disk after the timeout. */
  async close(): Promise<void> {
    try {
      await withDiskTimeout(this.#finish(), this.#timeoutMs)
    } catch (error) {
      this.#report((error as Error).message)
    }
  }

  async #finish(): Promise<void> {
    await this.#writing
    await this.#handle?.close()
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batches = this.#waiting
      this.#waiting = []
      await this.#write(batches.map(({ lines }) => lines).join(''))
      for (const { worker } of batches) this.#parts.onTaken(worker)
    }
  }

  /** Never throws. A hung disk is reported but still waited for, because only then is it known how much is in the file. */
  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text)
    const count = linesIn(bytes)
    this.#beganMs = this.#parts.nowMs()
    const slow = setTimeout(() => this.#report(new DiskTimeout(this.#timeoutMs).message), this.#timeoutMs).unref()
    try {
      const handle = await this.#currentHandle()
      await handle.append(bytes)
      this.#written.count += count
      this.#noteWritten()
    } catch (error) {
      const lost = error instanceof PartlyWritten ? linesIn(error.lost) : count
      this.#written.count += count - lost
      this.#failed.count += lost
      this.#report((error as Error).message)
    } finally {
      clearTimeout(slow)
    }
  }

  async #currentHandle(): Promise<AppendedFile> {
    const { path } = this.#parts
    const before = this.#handle
    if (before !== undefined && (await before.isAt(path))) return before
    this.#handle = await AppendedFile.open(path)
    await before?.close()
    return this.#handle
  }

  /** Logs a failure once for each change of the reason. */
  #report(reason: string): void {
    if (reason === this.#problem) return
    this.#problem = reason
    const { logger, path } = this.#parts
    logger.error({ event: 'decision_log_not_written', path, reason }, 'lines for EDGE_DECISION_LOG could not be written and are lost')
  }

  #noteWritten(): void {
    if (this.#problem === undefined) return
    this.#problem = undefined
    const { logger, path } = this.#parts
    logger.info({ event: 'decision_log_written_again', path }, 'writing to EDGE_DECISION_LOG has resumed')
  }

  #reportDropped(dropped: number): void {
    const unlogged = this.#drops.admit('dropped', this.#parts.nowMs())
    if (unlogged === undefined) return
    const { logger, path } = this.#parts
    const what = { event: 'decision_log_dropped', path, dropped, unlogged }
    logger.warn(what, 'EDGE_DECISION_LOG could not keep up: some decisions were not logged')
  }
}

/** The file of EDGE_DECISION_LOG cannot be written. */
export class DecisionLogFault extends Error {
  readonly path: string

  constructor(path: string, cause: unknown) {
    super(`${path} cannot be written`, { cause })
    this.path = path
  }
}
