import type { Step } from './case-schema.ts'

/** How many requests a step sends. */
export function timesOf({ times, expect }: Pick<Step, 'times' | 'expect'>): number {
  if (times !== undefined) return times
  return Array.isArray(expect?.status) ? expect.status.length : 1
}
