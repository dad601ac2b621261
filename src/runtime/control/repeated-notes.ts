import type { Logger } from 'pino'
import { runInSlices } from '../../slices.ts'

export interface RepeatedNotesParts {
  /** One note, a part at a time. */
  readonly steps: () => Generator<void>
  readonly intervalMs: number
  readonly logger: Logger
  /** Logged where a note fails. */
  readonly problem: string
}

/** Notes something again and again, never twice at once. What fails is logged, and tried again in its turn. */
export class RepeatedNotes {
  readonly #parts: RepeatedNotesParts
  readonly #timer: NodeJS.Timeout
  #isNoting = false

  constructor(parts: RepeatedNotesParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#note(), parts.intervalMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #note(): void {
    if (this.#isNoting) return
    this.#isNoting = true
    const { steps, logger, problem } = this.#parts
    runInSlices({
      steps: steps(),
      onDone: () => {
        this.#isNoting = false
      },
      onError: (err) => {
        this.#isNoting = false
        logger.error({ event: 'internal_error', err }, problem)
      },
    })
  }
}
