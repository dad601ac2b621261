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

/**
 * What is tried by chance is the same in every run, so that a change is never refused for what it did not touch. `EDGE_TEST_SEED=random` looks further,
 * and a number repeats what it found.
 */
export function seed(): number {
  const wanted = process.env['EDGE_TEST_SEED'] ?? '1'
  return wanted === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(wanted)
}

// Every test file loads this (each-file.ts): the seed of all properties, and how often one is tried that does not say so.
fc.configureGlobal({ seed: seed(), numRuns: Math.min(USUAL_RUNS, runs(20)) })
