import type { Cost } from './cost.ts'

/** Of rules without counters. */
export const NOTHING: Cost = Object.freeze({ needsBody: false, isLeasable: false, of: () => 0, settling: undefined } satisfies Cost)
