import fc from 'fast-check'

/** What fast-check itself would try. */
const USUAL_RUNS = 100

/** How often a property is tried: so many times in `npm test`, and more often in `npm run test:full`, which sets the variable. */
export function runs(count: number): number {
  return count * Number(process.env['EDGE_TEST_PROPERTY_RUNS'] ?? 1)
}

/** A size that is not the point of its test: the first one in `npm test`, and the second in `npm run test:full`. */
export function sized(quick: number, full: number): number {
  return process.env['EDGE_TEST_PROPERTY_RUNS'] === undefined ? quick : full
}

// Every test file loads this (each-file.ts): a property that does not say how often it is tried.
fc.configureGlobal({ numRuns: Math.min(USUAL_RUNS, runs(20)) })
