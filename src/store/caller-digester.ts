import { HalfSipHash, SubjectWords } from './subject.ts'

/** So that no digest is the hash of a counter. */
const CALLER = ['caller']

/**
 * Names a caller without its values: 16 hexadecimal digits of a keyed hash of them, in the order of a rule's limit_keys. The same in all
 * threads, and after a restart with the same state file, which keeps the key; in a fleet, the same in all instances, once they know its key.
 */
export class CallerDigester {
  #hash: HalfSipHash
  readonly #subject = new SubjectWords()

  constructor(hashKey: readonly [number, number]) {
    this.#hash = new HalfSipHash(hashKey)
  }

  /** From now on. */
  useKey(hashKey: readonly [number, number]): void {
    this.#hash = new HalfSipHash(hashKey)
  }

  of(values: readonly string[]): string {
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(CALLER)
    for (const value of values) subject.addText(value)
    this.#hash.digest(subject.words, subject.length)
    return hex(this.#hash.high) + hex(this.#hash.low)
  }
}

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(8, '0')
}
