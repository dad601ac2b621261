import type { Logger } from 'pino'
import { withDiskTimeout } from '../../files/whole-file.ts'
import type { IssuedKey } from './issued-key.ts'
import type { KeyJournal, LiveKeys } from './key-journal.ts'

export interface KeyCopyParts {
  readonly journal: Pick<KeyJournal, 'append' | 'rewrite' | 'appendSynced' | 'isSlow' | 'close'>
  /** Everything that was ever given to `save`, in its last state. */
  readonly live: LiveKeys
  readonly logger: Logger
  readonly retryMs?: number
}

/** Keys that wait for the disk. If there are more, none of them waits any longer: the file is written anew when the disk responds. */
const MAX_WAITING = 10_000
/** Pause after a failure. The next attempt writes all keys. */
const RETRY_MS = 30_000

/**
 * The file of an instance in a fleet: a copy of the keys, for a start without Redis. The change itself counts once Redis has it, so a disk that is full or hangs
 * is logged and keeps nobody from anything. Until the file is complete again, it does not say that it is.
 */
export class KeyCopy {
  readonly #parts: KeyCopyParts
  #waiting: IssuedKey[] = []
  /** Whether the file lacks keys that do not wait. */
  #isBehind = false
  /** When the copy was complete; undefined if the file says so already. */
  #syncedMs: number | undefined
  #working: Promise<void> | undefined
  #failedMs = Number.NEGATIVE_INFINITY
  #failure: string | undefined

  constructor(parts: KeyCopyParts) {
    this.#parts = parts
  }

  isSlow(): boolean {
    return this.#parts.journal.isSlow(performance.now())
  }

  /** Resolves when the keys are in the file, or when waiting makes no sense. */
  save(keys: readonly IssuedKey[]): Promise<void> {
    if (keys.length === 0) return Promise.resolve()
    if (this.#waiting.length + keys.length > MAX_WAITING) {
      this.#isBehind = true
      this.#waiting = []
    }
    if (!this.#isBehind) this.#waiting.push(...keys)
    return this.#written()
  }

  /** Has the file written anew, because it lacks what `save` cannot give it. */
  saveAll(): Promise<void> {
    this.#isBehind = true
    this.#waiting = []
    return this.#written()
  }

  /** Notes that all instances knew the same at this time. */
  saveSynced(wallMs: number): Promise<void> {
    this.#syncedMs = wallMs
    return this.#written()
  }

  /** Tries again to complete the file if that has failed a while ago. */
  retry(): void {
    if (this.#isBehind) void this.#written()
  }

  async close(): Promise<void> {
    await withDiskTimeout(this.#working ?? Promise.resolve()).catch((error: Error) => this.#noteFailure(error))
    await this.#parts.journal.close()
  }

  #written(): Promise<void> {
    if (performance.now() < this.#failedMs + (this.#parts.retryMs ?? RETRY_MS)) return Promise.resolve()
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
    if (this.isSlow()) return Promise.resolve()
    return withDiskTimeout(this.#working).catch((error: Error) => this.#noteFailure(error))
  }

  async #work(): Promise<void> {
    const { journal, live } = this.#parts
    try {
      while (this.#isBehind || this.#waiting.length > 0 || this.#syncedMs !== undefined) {
        const [keys, syncedMs] = [this.#waiting, this.#syncedMs]
        this.#waiting = []
        if (this.#isBehind) {
          // What is saved from here on may not be among the keys that are written now.
          this.#isBehind = false
          await journal.rewrite(live)
        } else if (keys.length > 0) await journal.append(keys, live)
        // What came meanwhile is written before the file says that it is complete.
        if (syncedMs === undefined || this.#isBehind || this.#waiting.length > 0) continue
        await journal.appendSynced(syncedMs)
        if (this.#syncedMs === syncedMs) this.#syncedMs = undefined
      }
      this.#failure = undefined
    } catch (error) {
      this.#isBehind = true
      this.#waiting = []
      this.#failedMs = performance.now()
      this.#noteFailure(error as Error)
    }
  }

  /** Logs once per reason. */
  #noteFailure({ message: reason }: Error): void {
    if (reason === this.#failure) return
    this.#failure = reason
    const what = 'the file of keys cannot be written; the keys are in Redis, and a start without Redis would lack some'
    this.#parts.logger.error({ event: 'keys_not_written', reason }, what)
  }
}
