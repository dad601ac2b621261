import type { Cost } from './cost.ts'

/** One for each request, or the number given with the question. 0 takes nothing and only checks. */
export const GIVEN: Cost = Object.freeze({
  needsBody: false,
  isLeasable: true,
  of: ({ given }) => given,
  settling: undefined,
} satisfies Cost)

/** Throws a RangeError for a number that cannot be taken: a negative one would add tokens, and NaN would pass every comparison. */
export function checkedGiven(given: number, name = 'cost'): number {
  if (Number.isFinite(given) && given >= 0) return given
  throw new RangeError(`${name}: expected a finite number of at least 0, got ${shown(given)}`)
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}
