import { HalfSipHash, SubjectWords } from './subject.ts'

/**
 * Identifies the counter of one subject for a settlement that does not know the subject's values. All fields are hex digits. A tag is a
 * keyed hash and reveals nothing about the values; from a key they could be guessed, so a locator is never shown.
 */
export interface CounterLocator {
  /** Digest of the counter's identity, the same for all subjects: see `identityDigest`. */
  readonly identity: string
  /** 64-bit hash of the subject in the table of the process that took, for the window that was charged. */
  readonly tag: string
  /** 128-bit digest that names the subject in Redis; undefined where no counters are kept there. */
  readonly key: string | undefined
}

/** Returns 64 bits of a counter's identity. They are the same in all processes, so that another one finds its own limit for the counter. */
export function identityDigest(identity: readonly string[]): string {
  const subject = new SubjectWords()
  subject.addIdentity(identity)
  const hash = new HalfSipHash([0, 0])
  hash.digest(subject.words, subject.length)
  return tagText(hash.low, hash.high)
}

export function tagText(low: number, high: number): string {
  return wordText(low) + wordText(high)
}

export function tagWords(tag: string): readonly [low: number, high: number] {
  return [Number.parseInt(tag.slice(0, 8), 16) | 0, Number.parseInt(tag.slice(8), 16) | 0]
}

function wordText(word: number): string {
  return (word >>> 0).toString(16).padStart(8, '0')
}
