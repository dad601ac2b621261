import { HalfSipHash, SubjectWords } from './subject.ts'

/**
 * Where the counter of one subject is, for a settlement that does not know the subject's values. All in hex digits. Nobody can tell the
 * values from a tag; from a key they could be guessed, so that a locator is never shown.
 */
export interface CounterLocator {
  /** Of the counter, whatever the subject: `identityDigest`. */
  readonly identity: string
  /** Of the subject in the table of the process that took, in the window that was taken from: 64 bits. */
  readonly tag: string
  /** Of the subject in Redis: 128 bits. Undefined where nothing is kept there. */
  readonly key: string | undefined
}

/** 64 bits of a counter's identity: the same in all processes, so that another one finds its own limit for it. */
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

/** The low and the high word of a tag. */
export function tagWords(tag: string): readonly [low: number, high: number] {
  return [Number.parseInt(tag.slice(0, 8), 16) | 0, Number.parseInt(tag.slice(8), 16) | 0]
}

function wordText(word: number): string {
  return (word >>> 0).toString(16).padStart(8, '0')
}
