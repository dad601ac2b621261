import { HalfSipHash, SubjectWords } from './subject.ts'

/** Prefix that no counter's identity has, so that a caller digest never equals the hash of a counter. */
const CALLER = ['caller']

/**
 * Turns a caller's values, in the order of a rule's limit_keys, into 16 hexadecimal digits of a keyed hash. Digests are the same in all
 * threads, and after a restart with the same state file, which keeps the key; in a fleet, they are the same in all instances once these
 * know the fleet's key.
 */
export class CallerDigester {
  #hash: HalfSipHash
  readonly #subject = new SubjectWords()

  constructor(hashKey: readonly [number, number]) {
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Replaces the key: earlier digests no longer match. */
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
