import type { PublishedKeys } from '../jwt/key-set.ts'
import type { KeySource } from './key-source.ts'

/** What the main thread tells the workers about one key set. */
export interface KeySetNews {
  readonly source: KeySource
  /** The last good set; undefined if there is none, or if the worker has it already. */
  readonly keys: PublishedKeys | undefined
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
