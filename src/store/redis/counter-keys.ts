import { hash } from 'node:crypto'
import type { Charges } from '../charges.ts'
import { SubjectWords } from '../subject.ts'
import type { FleetCounter } from './fleet-counter.ts'

const DIGEST_DIGITS = 32

/** The names of counters in Redis: digests, so that nothing that callers send is stored there. */
export class CounterKeys {
  readonly #prefix: string
  readonly #subject = new SubjectWords()

  /** `prefix`: of all keys. */
  constructor(prefix: string) {
    this.#prefix = prefix
  }

  keyOf(charges: Charges, row: number): string {
    return this.#prefix + (charges.locators === undefined ? this.digestOf(charges, row) : charges.locators[row]!.key!)
  }

  digestOf({ counters, values, valuesFrom }: Charges, row: number): string {
    const subject = this.#subject
    subject.clear()
    subject.addWords((counters[row] as FleetCounter).identityWords)
    for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) subject.addText(values[i]!)
    const bytes = new Uint8Array(subject.words.buffer, 0, subject.length * 4)
    return hash('sha256', bytes, 'hex').slice(0, DIGEST_DIGITS)
  }
}
