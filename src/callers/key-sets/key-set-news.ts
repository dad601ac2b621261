import type { KeySource } from './key-source.ts'

/** What was read of a key set, in a form that can be sent between threads. */
export interface ReadKeys {
  /** Differs whenever keys that tokens are verified with differ. */
  readonly version: string
  readonly usable: readonly unknown[]
  /** Why other keys are not used, a sentence for each that quotes nothing of the set. */
  readonly unused: readonly string[]
  /** Every `kid`, also of keys that are not used. */
  readonly kids: readonly string[]
}

/** What the main thread tells the workers about one key set. */
export interface KeySetNews {
  readonly source: KeySource
  /** The last good set; undefined if there is none, or if the worker has it already. */
  readonly keys: ReadKeys | undefined
  /** When the last good reading began, on the monotonic clock: a key that was published before is in the set. */
  readonly readAtMs: number
  /** Whether the last reading failed. */
  readonly isFailing: boolean
  /** When the next reading may begin that is made for an unknown key, on the monotonic clock. */
  readonly askableAtMs: number
}

/** A message to workers. */
export interface KeySetsChange {
  readonly changed: readonly KeySetNews[]
  /** Sources that the active bundle does not name. */
  readonly gone: readonly KeySource[]
}
