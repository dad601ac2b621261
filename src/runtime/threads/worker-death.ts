import { backoffMs } from '../../backoff.ts'

/** What a worker died of, as the log and the metrics name it. */
export type Cause = 'exception' | 'out_of_memory' | 'exit'

export const CAUSES: readonly Cause[] = ['exception', 'out_of_memory', 'exit']

export const CAUSE_WORDS: Readonly<Record<Cause, string>> = {
  exception: 'a worker broke; the others go on',
  out_of_memory: 'a worker ran out of memory; the others go on',
  exit: 'a worker ended; the others go on',
}

export function causeOf(error: Error | undefined): Cause {
  if (error === undefined) return 'exit'
  return (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out_of_memory' : 'exception'
}

const SHORT_LIFE_MS = 1000
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 5000

/** Lives in a row that were too short to be worth replacing at once. */
export class ShortLives {
  #count = 0

  /** Returns how long to wait before the next one starts. */
  note(livedMs: number): number {
    this.#count = livedMs < SHORT_LIFE_MS ? this.#count + 1 : 0
    return this.#count === 0 ? 0 : backoffMs(FIRST_PAUSE_MS, MAX_PAUSE_MS, this.#count)
  }
}
