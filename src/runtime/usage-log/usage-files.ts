import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { AppendedFile, linesIn, PartlyWritten } from '../../files/appended-file.ts'
import { DISK_TIMEOUT_MS, DiskTimeout, withDiskTimeout } from '../../files/whole-file.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { UsageLogMetrics } from '../../telemetry/metrics/usage-log-metrics.ts'
import { Sampler } from '../../telemetry/sampler.ts'
import type { Clock } from '../../time/clock.ts'
import { inSlices } from '../../time/slices.ts'
import type { HourLines } from '../../usage-log/usage-line.ts'
import { chargedRulesIn } from '../../usage-log/usage-reader.ts'
import { UsageUpkeep } from './usage-upkeep.ts'

/** What was written is synced at most so long after it, so that a crash of the machine loses no more. */
const SYNC_MS = 1000
/** Files that are open at a time. Beside the present hour, workers may still have lines of the one before. */
const MAX_OPEN = 3

export interface UsageFilesParts {
  readonly directory: string
  readonly keepDays: number
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  readonly diskTimeoutMs?: number | undefined
  /** Pause between two looks at files that are over or too old. */
  readonly upkeepMs?: number | undefined
  /** Called once a worker's batch is written or lost; the worker may then send the next. */
  readonly onTaken: (worker: number) => void
}

interface OpenFile {
  readonly hour: string
  readonly name: string
  readonly file: AppendedFile
  isSynced: boolean
}

/**
 * The files of EDGE_USAGE_DIR, which the main thread writes for all workers, one write at a time. Lines that cannot be written are lost, and counted with what
 * they were charged; the next batch tries again. An hour that comes again, because the clock was set back, is continued or gets another file.
 */
export class UsageFiles {
  readonly #parts: UsageFilesParts
  readonly #metrics: UsageLogMetrics
  readonly #timeoutMs: number
  readonly #upkeep: UsageUpkeep
  readonly #losses = new Sampler<'lost'>(new Map())
  /** Ordered by the last write, the oldest first. */
  readonly #open: OpenFile[] = []
  #work: Promise<void> = Promise.resolve()
  #beganMs: number | undefined
  #syncTimer: NodeJS.Timeout | undefined
  #problem: string | undefined

  constructor(parts: UsageFilesParts) {
    this.#parts = parts
    this.#timeoutMs = parts.diskTimeoutMs ?? DISK_TIMEOUT_MS
    this.#metrics = new UsageLogMetrics(parts.metrics)
    const { directory, keepDays, logger, clock, upkeepMs } = parts
    const release = (name: string): Promise<void> => this.#release(name)
    const instance = randomBytes(4).toString('hex')
    this.#upkeep = new UsageUpkeep({ directory, keepDays, logger, clock, intervalMs: upkeepMs, instance, release })
  }

  /** Creates the directory if it is missing. Throws a UsageLogFault if files cannot be written there. */
  static async check(directory: string, timeoutMs = DISK_TIMEOUT_MS): Promise<void> {
    const probe = join(directory, `check-${randomBytes(4).toString('hex')}`)
    const write = async (): Promise<void> => {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      await (await AppendedFile.open(probe)).close()
      await rm(probe)
    }
    try {
      await withDiskTimeout(write(), timeoutMs)
    } catch (error) {
      throw new UsageLogFault(directory, error)
    }
  }

  /** Queues a worker's batch. `lost` is how many lines the worker had no room for. */
  write(worker: number, hours: readonly HourLines[], lost: number): void {
    if (lost > 0) this.#reportLost(lost)
    this.#enqueue(async () => {
      for (const { hour, lines } of hours) await this.#write(hour, Buffer.from(lines))
      this.#parts.onTaken(worker)
    })
  }

  /** Counts the lines as lost that a worker which has died did not send. To be called before its gauges are cleared. */
  loseWaiting(worker: number): void {
    this.#metrics.loseWaiting(worker)
  }

  /** Whether a write has taken so long that the disk may never respond. */
  get isSlow(): boolean {
    return this.#beganMs !== undefined && this.#parts.clock.nowMs() - this.#beganMs > this.#timeoutMs
  }

  /** To be called once workers send nothing more. Gives up on a hung disk after the timeout. */
  async close(): Promise<void> {
    clearTimeout(this.#syncTimer)
    try {
      await withDiskTimeout(this.#finish(), this.#timeoutMs)
    } catch (error) {
      this.#report((error as Error).message)
    }
  }

  async #finish(): Promise<void> {
    await this.#upkeep.stop()
    this.#enqueue(async () => {
      for (const { file } of this.#open) {
        await file.sync()
        await file.close()
      }
    })
    await this.#work
  }

  /** Work is done one piece after the other. A piece that fails is reported. */
  #enqueue(work: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      this.#beganMs = this.#parts.clock.nowMs()
      const slow = setTimeout(() => this.#report(new DiskTimeout(this.#timeoutMs).message), this.#timeoutMs).unref()
      try {
        await work()
      } catch (error) {
        this.#report((error as Error).message)
      } finally {
        clearTimeout(slow)
        this.#beganMs = undefined
      }
    })
  }

  /** Never throws. */
  async #write(hour: string, lines: Buffer): Promise<void> {
    const count = linesIn(lines)
    try {
      const open = await this.#fileOf(hour)
      open.isSynced = false
      await open.file.append(lines)
      this.#metrics.written.count += count
      this.#noteWritten()
    } catch (error) {
      const lost = error instanceof PartlyWritten ? error.lost : lines
      this.#metrics.written.count += count - linesIn(lost)
      await this.#countLost(lost)
      this.#report((error as Error).message)
    }
    this.#syncTimer ??= setTimeout(() => this.#syncSoon(), SYNC_MS).unref()
  }

  /** Lines were checked when they were written, so each of them can be read. */
  #countLost(lost: Buffer): Promise<void> {
    const metrics = this.#metrics
    return inSlices(
      (function* () {
        for (let from = 0; from < lost.length; ) {
          const end = lost.indexOf(0x0a, from)
          metrics.countLost('disk_failed', chargedRulesIn(lost.toString('utf8', from, end)))
          from = end + 1
          yield
        }
      })(),
    )
  }

  async #fileOf(hour: string): Promise<OpenFile> {
    const { directory } = this.#parts
    const at = this.#open.findIndex((each) => each.hour === hour)
    const known = at < 0 ? undefined : this.#open.splice(at, 1)[0]!
    if (known !== undefined && (await known.file.isAt(join(directory, known.name)))) {
      this.#open.push(known)
      return known
    }
    await known?.file.close()
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const name = await this.#upkeep.nameOf(hour)
    const fresh = { hour, name, file: await AppendedFile.open(join(directory, name)), isSynced: true }
    this.#open.push(fresh)
    if (this.#open.length > MAX_OPEN) await this.#open.shift()!.file.close()
    return fresh
  }

  #syncSoon(): void {
    this.#syncTimer = undefined
    this.#enqueue(async () => {
      for (const each of this.#open) {
        if (each.isSynced) continue
        await each.file.sync()
        each.isSynced = true
      }
    })
  }

  /** Closes a file that is about to be compressed. Resolves when nothing more is written to it. */
  async #release(name: string): Promise<void> {
    this.#enqueue(async () => {
      const at = this.#open.findIndex((each) => each.name === name)
      if (at >= 0) await this.#open.splice(at, 1)[0]!.file.close()
    })
    await this.#work
  }

  /** Logs a failure once for each change of the reason. */
  #report(reason: string): void {
    if (reason === this.#problem) return
    this.#problem = reason
    const { logger, directory } = this.#parts
    logger.error({ event: 'usage_not_written', path: directory, reason }, 'lines for EDGE_USAGE_DIR could not be written and are lost')
  }

  #noteWritten(): void {
    if (this.#problem === undefined) return
    this.#problem = undefined
    const { logger, directory } = this.#parts
    logger.info({ event: 'usage_written_again', path: directory }, 'writing to EDGE_USAGE_DIR has resumed')
  }

  #reportLost(lost: number): void {
    const unlogged = this.#losses.admit('lost', this.#parts.clock.nowMs())
    if (unlogged === undefined) return
    const { logger, directory } = this.#parts
    const what = { event: 'usage_lines_lost', path: directory, lost, unlogged }
    logger.warn(what, 'EDGE_USAGE_DIR could not keep up: some requests are missing in the usage log')
  }
}

/** Files cannot be written to EDGE_USAGE_DIR. */
export class UsageLogFault extends Error {
  readonly path: string

  constructor(path: string, cause: unknown) {
    super(`${path} cannot be written`, { cause })
    this.path = path
  }
}
