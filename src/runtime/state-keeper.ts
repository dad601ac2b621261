import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { StateFile } from '../store/state/state-file.ts'
import { acquireStateLock, type StateLock } from '../store/state/state-lock.ts'
import { CounterFamily, type Series } from '../telemetry/metrics/counter-family.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'

/** As `--help` and the documentation have it. */
const INTERVAL_MS = 5000
const SLOW_MS = 2000

export interface StateKeeperParts {
  readonly file: StateFile
  readonly lock: StateLock
  readonly metrics: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  /** How long after each save the next one begins. */
  readonly intervalMs?: number
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
  #saves = 0
  #savedAtMs: number | undefined
  #savingSinceMs = Number.POSITIVE_INFINITY

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
    return this.#parts.clock.nowMs() - this.#savingSinceMs > SLOW_MS
  }

  /** The last save, when nothing is taken any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#save(true)
    await this.#lock.release()
  }

  async #lockAgain(): Promise<void> {
    const lost = this.#lock
    this.#lock = await acquireStateLock(this.#parts.file.path)
    await lost.release()
  }

  async #saveAndRest(): Promise<void> {
    await this.#save()
    if (this.#isClosed) return
    this.#timer = setTimeout(() => void this.#saveAndRest(), this.#parts.intervalMs ?? INTERVAL_MS).unref()
  }

  async #save(isLast = false): Promise<void> {
    const { file, logger, clock } = this.#parts
    this.#saves++
    this.#savingSinceMs = clock.nowMs()
    try {
      if (await this.#lock.isLost()) await this.#lockAgain()
      const { counters } = await file.save()
      this.#saved.count++
      this.#savedAtMs = clock.wallMs()
      this.#lastSaveS.count = Math.floor(this.#savedAtMs / 1000)
      this.#lastSaveCounters.count = counters
      if (this.#problem !== undefined) logger.info({ event: 'state_saved_again', path: file.path, counters }, 'counters are saved again')
      this.#problem = undefined
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
    } finally {
      if (--this.#saves === 0) this.#savingSinceMs = Number.POSITIVE_INFINITY
    }
  }
}
