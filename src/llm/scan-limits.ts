import type { ScanLimits } from './json-scanner.ts'

/**
 * For requests and whole answers. Deeper than the parsers of most backends go, and more numbers than any prompt of token ids has or
 * 16 MiB of embeddings. Two million values take a fraction of a second to read.
 */
export const SCAN_LIMITS: ScanLimits = { depth: 1000, values: 2_000_000 }
