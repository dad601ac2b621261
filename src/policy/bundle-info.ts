/** The active bundle, as /readyz and the metrics report it. */
export interface BundleInfo {
  readonly version: string
  /** Lower-case hex sha256 of the bytes. */
  readonly hash: string
  readonly updatedAtS: number
}
