import { EarlierRuns } from './earlier-runs.ts'
import type { ReservationMemory } from './reservation-memory.ts'
import type { ReservationName } from './reservation-name.ts'
import { ReservationNumbers } from './reservation-numbers.ts'
import type { SettledMarks } from './settled-marks.ts'

/** Marks in the memory that the threads of this process share. Those of other instances are not known here. */
export class MemoryMarks implements SettledMarks {
  readonly #memory: ReservationMemory
  readonly #numbers: ReservationNumbers
  readonly #earlier: EarlierRuns

  constructor(memory: ReservationMemory) {
    this.#memory = memory
    this.#numbers = new ReservationNumbers(memory.numbers, 0)
    this.#earlier = new EarlierRuns(memory.earlier)
  }

  mark(name: ReservationName, issuedMs: number): 'marked' | 'already' | 'lost' {
    if (!this.isCounted(name, issuedMs)) return 'lost'
    const { run, worker, hour, number } = name
    return run === this.#memory.run ? this.#numbers.mark(worker, hour, number) : this.#earlier.mark(run, worker, hour, number)
  }

  /** Whether the counters of this process include what was taken: not if another one took it, or if a crash lost it before it was saved. */
  isCounted({ instance, run, worker, hour }: ReservationName, issuedMs: number): boolean {
    if (instance !== this.#memory.instance) return false
    return run === this.#memory.run || issuedMs <= (this.#earlier.savedMs(run, worker, hour) ?? Number.NEGATIVE_INFINITY)
  }
}
