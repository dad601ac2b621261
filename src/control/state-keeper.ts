import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { StateFile } from '../store/state/state-file.ts'
import { acquireStateLock, type StateLock } from '../store/state/state-lock.ts'
import { CounterFamily, type Series } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'

/** As `--help` and the documentation have it. */
const INTERVAL_MS = 5000
const SLOW_MS = 2000
const PATIENCE_MS = 5000

export interface StateKeeperParts {
  readonly file: StateFile
  readonly lock: StateLock
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  /** How long after each save the next one begins. */
  readonly intervalMs?: number
  /** How long an operator waits for a disk. */
  readonly patienceMs?: number
}

/** Saves the counters every few seconds and at the end. A save that fails changes nothing, is logged, and is tried again. */
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

  constructor(parts: StateKeeperParts) {
    this.#parts = parts
    this.#lock = parts.lock
    const saves = new CounterFamily(parts.metrics, 'edge_state_saves_total')
    this.#saved = saves.series('saved')
    this.#failed = saves.series('failed')
    this.#lastSaveS = new CounterFamily(parts.metrics, 'edge_state_last_save_timestamp_seconds').series()
    this.#lastSaveCounters = new CounterFamily(parts.metrics, 'edge_state_last_save_counters').series()
  }

  /** Saves at once, so that a disk that takes nothing shows, and then again and again, a while after each save ended. */
  start(): void {
    void this.#saveAndRest()
  }

  get path(): string {
    return this.#parts.file.path
  }

  /** When the last save ended well; undefined before the first. */
  get savedAtMs(): number | undefined {
    return this.#savedAtMs
  }

  /** Whether a save takes so long that the disk may never answer. */
  get isSlow(): boolean {
    const nowMs = this.#parts.clock.nowMs()
    return [...this.#open].some(({ beganMs }) => nowMs - beganMs > SLOW_MS)
  }

  /** What was there before this moment of the monotonic clock is in the file. */
  get savedUpToMs(): number {
    return this.#savedUpToMs
  }

  /** Saves what is there at the time of the call. Returns whether it is in the file; why not is in the log. Does not wait for a disk that hangs. */
  async saveNow(): Promise<boolean> {
    if (this.#isClosed) return false
    const timer = new AbortController()
    const tooLate = sleep(this.#parts.patienceMs ?? PATIENCE_MS, false, { signal: timer.signal, ref: false }).catch(() => false)
    const isSaved = await Promise.race([this.#save(), tooLate])
    timer.abort()
    return isSaved
  }

  /** The last save, when nothing is taken any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#save(true)
    await this.#lock.release()
  }

  /** One look for all saves that are under way: the second to lock again would meet the first. */
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
    await this.#save()
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#saveAndRest(), this.#parts.intervalMs ?? INTERVAL_MS).unref()
  }

  /** Returns whether it succeeded. */
  async #save(isLast = false): Promise<boolean> {
    const { file, logger, clock } = this.#parts
    const save = { beganMs: clock.nowMs() }
    this.#open.add(save)
    try {
      await this.#keepLock()
      const { counters } = await file.save()
      this.#saved.count++
      this.#savedAtMs = clock.wallMs()
      this.#lastSaveS.count = Math.floor(this.#savedAtMs / 1000)
      this.#lastSaveCounters.count = counters
      if (this.#problem !== undefined) logger.info({ event: 'state_saved_again', path: file.path, counters }, 'counters are saved again')
      this.#problem = undefined
      this.#savedUpToMs = Math.max(this.#savedUpToMs, save.beganMs)
      return true
    } catch (error) {
      this.#failed.count++
      const { message } = error as Error
      // Once for each change of the reason, and once more in the end
      if (message !== this.#problem || isLast) {
        logger.error(
          { event: 'state_not_saved', path: file.path, reason: message },
          'counters could not be saved; the file from before stays',
        )
      }
      this.#problem = message
      return false
    } finally {
      this.#open.delete(save)
    }
  }
}
