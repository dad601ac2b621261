import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import type { Logger } from 'pino'
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
  #handle: LogHandle | undefined
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
      const handle = await withDiskTimeout(LogHandle.open(path), timeoutMs)
      await handle.close()
    } catch (error) {
      throw error instanceof DiskTimeout ? new DecisionLogFault(path, error) : error
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
      const lost = error instanceof PartlyWritten ? Math.min(error.lostLines, count) : count
      this.#written.count += count - lost
      this.#failed.count += lost
      this.#report(error instanceof DecisionLogFault ? (error.cause as Error).message : (error as Error).message)
    } finally {
      clearTimeout(slow)
    }
  }

  async #currentHandle(): Promise<LogHandle> {
    const { path } = this.#parts
    const before = this.#handle
    if (before !== undefined && (await before.isAt(path))) return before
    this.#handle = await LogHandle.open(path)
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

/** A file opened for appending. A new one gets mode 0600, because it contains callers' values. */
class LogHandle {
  readonly #file: FileHandle
  /** Device and inode, which tell this file from another that has its name by now. */
  readonly #identity: string
  /** Whether the last line has no line end, so that the next one must not continue it. */
  #isLineOpen: boolean

  private constructor(file: FileHandle, identity: string, isLineOpen: boolean) {
    this.#file = file
    this.#identity = identity
    this.#isLineOpen = isLineOpen
  }

  /** Throws a DecisionLogFault. */
  static async open(path: string): Promise<LogHandle> {
    try {
      // Opening a pipe would wait for somebody to read it.
      if ((await identityOf(path)) === NOT_A_FILE) throw new Error('it is not a regular file')
      const file = await open(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT, 0o600)
      const { dev, ino, size } = await file.stat()
      const last = Buffer.from('\n')
      if (size > 0) await file.read(last, 0, 1, size - 1)
      return new LogHandle(file, `${dev}:${ino}`, last[0] !== 0x0a)
    } catch (error) {
      throw new DecisionLogFault(path, error)
    }
  }

  /** Whether the path still leads to this file; it does not after a log rotation. */
  async isAt(path: string): Promise<boolean> {
    return (await identityOf(path)) === this.#identity
  }

  /** Throws a PartlyWritten if not everything could be written. */
  async append(lines: Buffer): Promise<void> {
    const bytes = this.#isLineOpen ? Buffer.concat([LINE_END, lines]) : lines
    let written = 0
    try {
      while (written < bytes.length) written += (await this.#file.write(bytes, written)).bytesWritten
      this.#isLineOpen = false
    } catch (error) {
      if (written > 0) this.#isLineOpen = bytes[written - 1] !== 0x0a
      throw new PartlyWritten(linesIn(bytes.subarray(written)), error)
    }
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

class PartlyWritten extends Error {
  /** Lines that were not written, or not completely. */
  readonly lostLines: number

  constructor(lostLines: number, cause: unknown) {
    super((cause as Error).message, { cause })
    this.lostLines = lostLines
  }
}

function linesIn(bytes: Uint8Array): number {
  let lines = 0
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) lines++
  return lines
}

const NOT_A_FILE = ''
const LINE_END = Buffer.from('\n')

/** Returns undefined if nothing exists at the path. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path)
    return found.isFile() ? `${found.dev}:${found.ino}` : NOT_A_FILE
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
