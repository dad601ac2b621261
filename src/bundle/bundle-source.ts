import type { BundleInfo } from '../policy/plan.ts'
import type { BundleFormat } from '../policy/schema/bundle.ts'

/** Offers bundles to the intake and reports the results. */
export interface BundleSource {
  /** Polls once, then keeps polling. */
  start(): Promise<void>
  /** Polls again, even if nothing seems to have changed. */
  reload(): Promise<void>
  /** Resolves when nothing is in flight any more, or when what is in flight may never end. */
  stop(): void | Promise<void>
  readonly status: SourceStatus
}

export interface SourceStatus {
  readonly location: BundleLocation
  /** Whether the active bundle came from the cache and the source has not confirmed it yet. */
  readonly isCached: boolean
  /** How often the source's file was looked at, counted when everything it had was dealt with; undefined for a URL. */
  readonly looks?: number
  /** The current problem of the source, as a sentence about it. */
  readonly problem: string | undefined
  /** Why the bundle that the source has now was refused; undefined if it was not. */
  readonly refusal: Refusal | undefined
  /** Whether the source is waiting for a disk that may never respond. */
  readonly isDiskSlow: boolean
}

/** Where a bundle is looked for, in a form that people may see. */
export type BundleLocation = { readonly path: string } | { readonly url: string }

/** Why a bundle was refused. */
export interface Refusal {
  /** The first problems, as sentences. */
  readonly problems: readonly string[]
  readonly problemsInAll: number
  /** Of the bundle that was refused, as far as it could be read. */
  readonly version: string | undefined
  /** Of its bytes, where they are known. */
  readonly hash: string | undefined
}

/** A bundle as received, before it is read. */
export interface OfferedBundle {
  readonly bytes: Uint8Array
  readonly format: BundleFormat
  /** Base64 text of the signature. */
  readonly signature: string | undefined
}

/** A bundle that is or was active. */
export interface AppliedBundle extends BundleInfo {
  readonly policyCount: number
}

export function isSameBundle(one: OfferedBundle, other: OfferedBundle): boolean {
  return one.signature === other.signature && one.format === other.format && Buffer.compare(one.bytes, other.bytes) === 0
}

// Ten thousand policies take about 4 MB.
export const MAX_BUNDLE_BYTES = 16 * 1024 * 1024
