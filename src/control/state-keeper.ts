import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { StateFile } from '../store/state/state-file.ts'
import { acquireStateLock, type StateLock } from '../store/state/state-lock.ts'
import { CounterFamily, type Series } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'

/** `--help` and the documentation state this interval, too. */
const INTERVAL_MS = 5000
/** Every so many intervals, counters that have not changed are saved all the same, so that a disk that has become unusable shows. */
const MAX_SKIPPED = 59
const SLOW_MS = 2000
const PATIENCE_MS = 5000

export interface StateKeeperParts {
  readonly file: StateFile
  readonly lock: StateLock
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  /** Pause between the end of a save and the next one. */
  readonly intervalMs?: number
  /** How long an operator waits for the disk. */
  readonly patienceMs?: number
}

/** Saves counters that have changed every few seconds, and all of them at shutdown. A save that fails leaves the file as it was, is logged, and is retried. */
export class StateKeeper {
  readonly #parts: StateKeeperParts
  readonly #saved: Series
  readonly #failed: Series
  readonly #lastSaveS: Series
  readonly #lastSaveCounters: Series
  #lock: StateLock
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #problem: string | undefined
  readonly #open = new Set<{ readonly beganMs: number }>()
  #locking: Promise<void> | undefined
  #savedUpToMs = Number.NEGATIVE_INFINITY
  #savedAtMs: number | undefined
  #skipped = 0

  constructor(parts: StateKeeperParts) {
    this.#parts = parts
    this.#lock = parts.lock
    const saves = new CounterFamily(parts.metrics, 'edge_state_saves_total')
    this.#saved = saves.series('saved')
    this.#failed = saves.series('failed')
    this.#lastSaveS = new CounterFamily(parts.metrics, 'edge_state_last_save_timestamp_seconds').series()
    this.#lastSaveCounters = new CounterFamily(parts.metrics, 'edge_state_last_save_counters').series()
  }

  /** Saves at once, so that an unusable disk shows early, and then repeatedly, with a pause after each save. */
  start(): void {
    void this.#saveAndRest()
  }

  get path(): string {
    return this.#parts.file.path
  }

  /** When the counters were last saved, or found to be in the file already, on the wall clock; undefined before the first save. */
  get savedAtMs(): number | undefined {
    return this.#savedAtMs
  }

  /** Whether a save has taken so long that the disk may never respond. */
  get isSlow(): boolean {
    const nowMs = this.#parts.clock.nowMs()
    return [...this.#open].some(({ beganMs }) => nowMs - beganMs > SLOW_MS)
  }

  /** Everything up to this time of the monotonic clock is in the file. */
  get savedUpToMs(): number {
    return this.#savedUpToMs
  }

  /** Saves the current state. Returns whether it is in the file; the log has the reason if not. Gives up waiting for a hung disk. */
  async saveNow(): Promise<boolean> {
    if (this.#isClosed) return false
    const timer = new AbortController()
    const tooLate = sleep(this.#parts.patienceMs ?? PATIENCE_MS, false, { signal: timer.signal, ref: false }).catch(() => false)
    const isSaved = await Promise.race([this.#save(), tooLate])
    timer.abort()
    return isSaved
  }

  /** Makes the last save, once nothing is taken from counters any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#save(true)
    await this.#lock.release()
  }

  /** All saves under way share one check of the lock: if two of them locked again, the second would run into the first one's lock. */
  #keepLock(): Promise<void> {
    this.#locking ??= this.#lockAgainIfLost().finally(() => {
      this.#locking = undefined
    })
    return this.#locking
  }

  async #lockAgainIfLost(): Promise<void> {
    const lost = this.#lock
    if (!(await lost.isLost())) return
    this.#lock = await acquireStateLock(this.#parts.file.path)
    await lost.release()
  }

  async #saveAndRest(): Promise<void> {
    if (!(await this.#skip())) await this.#save()
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#saveAndRest(), this.#parts.intervalMs ?? INTERVAL_MS).unref()
  }

  /** Returns whether the file has everything already. A save reads the whole table, and the disk of an idle instance may sleep. */
  async #skip(): Promise<boolean> {
    const { file, clock } = this.#parts
    const nowMs = clock.nowMs()
    if (this.#problem !== undefined || this.#skipped >= MAX_SKIPPED || !file.isUpToDate()) return false
    try {
      await this.#keepLock()
    } catch {
      return false // the save runs into the same and reports it
    }
    this.#skipped++
    this.#noteSaved(nowMs)
    return true
  }

  #noteSaved(upToMs: number): void {
    this.#savedAtMs = this.#parts.clock.wallMs()
    this.#lastSaveS.count = Math.floor(this.#savedAtMs / 1000)
    this.#savedUpToMs = Math.max(this.#savedUpToMs, upToMs)
  }

  /** Returns whether the save succeeded. */
  async #save(isLast = false): Promise<boolean> {
    const { file, logger, clock } = this.#parts
    const save = { beganMs: clock.nowMs() }
    this.#open.add(save)
    try {
      await this.#keepLock()
      const { counters } = await file.save()
      this.#saved.count++
      this.#skipped = 0
      this.#noteSaved(save.beganMs)
      this.#lastSaveCounters.count = counters
      if (this.#problem !== undefined) logger.info({ event: 'state_saved_again', path: file.path, counters }, 'counters are saved again')
      this.#problem = undefined
      return true
    } catch (error) {
      this.#failed.count++
      const { message } = error as Error
      // A failure is logged once for each change of the reason, and once more at shutdown.
      if (message !== this.#problem || isLast) {
        logger.error(
          { event: 'state_not_saved', path: file.path, reason: message },
          'counters could not be saved; the previous file is kept',
        )
      }
      this.#problem = message
      return false
    } finally {
      this.#open.delete(save)
    }
  }
}
