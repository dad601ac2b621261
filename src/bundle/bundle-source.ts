import type { BundleFormat } from '../policy/bundle-format.ts'

/** What gives bundles to the intake and tells what became of them. */
export interface BundleSource {
  /** Looks once, then keeps looking. */
  start(): Promise<void>
  /** Looks again, changed or not. */
  reload(): Promise<void>
  /** Done when nothing is under way any more, or may be for ever. */
  stop(): void | Promise<void>
  readonly status: SourceStatus
}

export interface SourceStatus {
  /** The active bundle came from the cache, and the source has not said yet that it has the same. */
  readonly isCached: boolean
  /** What is wrong with the source now, as a sentence about it; undefined: nothing. */
  readonly problem: string | undefined
  /** A disk is waited for that may never answer. */
  readonly isDiskSlow: boolean
}

/** A bundle as it came, before anybody has looked at it. */
export interface OfferedBundle {
  readonly bytes: Uint8Array
  readonly format: BundleFormat
  /** Base64 text. */
  readonly signature: string | undefined
}

export function isSameBundle(one: OfferedBundle, other: OfferedBundle): boolean {
  return one.signature === other.signature && one.format === other.format && Buffer.compare(one.bytes, other.bytes) === 0
}

// Ten thousand policies are some 4 MB.
export const MAX_BUNDLE_BYTES = 16 * 1024 * 1024
