import type { BundleFormat } from '../policy/parse.ts'

/** What gives bundles to the intake and tells what became of them. */
export interface BundleSource {
  /** Looks once, then keeps looking. */
  start(): Promise<void>
  /** Looks again, changed or not. */
  reload(): Promise<void>
  stop(): void
}

/** A bundle as it came, before anybody has looked at it. */
export interface OfferedBundle {
  readonly bytes: Uint8Array
  readonly format: BundleFormat
  /** Base64 text. */
  readonly signature: string | undefined
}

// Ten thousand policies are some 4 MB.
export const MAX_BUNDLE_BYTES = 16 * 1024 * 1024
