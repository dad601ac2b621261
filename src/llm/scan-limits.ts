export interface ScanLimits {
  /** How deep objects and lists may be nested. */
  readonly depth: number
  /** How many values there may be in total: strings, numbers, literals, objects and lists. */
  readonly values: number
}

/**
 * For requests and complete responses. Deeper than the parsers of most backends go, and more numbers than any prompt of token ids or
 * 16 MiB of embeddings has. Two million values take a fraction of a second to read.
 */
export const SCAN_LIMITS: ScanLimits = { depth: 1000, values: 2_000_000 }
