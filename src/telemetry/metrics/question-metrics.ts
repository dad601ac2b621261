import { CounterFamily, type Series } from './counter-family.ts'
import type { MetricMemory } from './metric-memory.ts'

type Outcome = 'allow' | 'reject' | 'refuse'
type OutcomeCounts = Readonly<Record<Outcome, Series>>

/** What came of the questions of each door. Counted on every decision. */
export class QuestionMetrics {
  readonly #family: CounterFamily
  readonly #byDoor = new Map<string, OutcomeCounts>()

  constructor(memory: MetricMemory) {
    this.#family = new CounterFamily(memory, 'edge_questions_total')
  }

  count(door: string, outcome: Outcome): void {
    this.#of(door)[outcome].count++
  }

  #of(door: string): OutcomeCounts {
    let counts = this.#byDoor.get(door)
    if (counts === undefined) {
      const series = (outcome: Outcome): Series => this.#family.series(door, outcome)
      counts = { allow: series('allow'), reject: series('reject'), refuse: series('refuse') }
      this.#byDoor.set(door, counts)
    }
    return counts
  }
}
