import type { Values } from '../timeline.ts'

/** Share of the values that a scale always shows in full. */
const ORDINARY_SHARE = 0.98
/** Values above this many times the ordinary ones are cut off. */
const PEAK_FACTOR = 4
/** A cut scale ends at this many times the ordinary values. */
const ROOM_FACTOR = 2
/** Of fewer values nobody can tell what is ordinary. */
const MIN_VALUES = 20

/**
 * Returns where a chart's scale is cut off, or undefined if it shows everything. One spike would otherwise flatten all other values into a line at the
 * bottom. Zeros do not count, because a line that is mostly zero is not flattened by what it shows.
 */
export function scaleCut(lines: readonly Values[]): number | undefined {
  const values = lines.flatMap((line) => line.filter((value) => value !== null && value > 0) as number[]).sort((a, b) => a - b)
  if (values.length < MIN_VALUES) return undefined
  const ordinary = values[Math.floor((values.length - 1) * ORDINARY_SHARE)]!
  return values.at(-1)! > PEAK_FACTOR * ordinary ? ROOM_FACTOR * ordinary : undefined
}

export interface Peak {
  readonly line: number
  /** Position among the values. */
  readonly index: number
  readonly value: number
}

/** Returns the highest value of all lines. */
export function highestPeak(lines: readonly Values[]): Peak | undefined {
  let highest: Peak | undefined
  for (const [line, values] of lines.entries())
    for (const [index, value] of values.entries())
      if (value !== null && (highest === undefined || value > highest.value)) highest = { line, index, value }
  return highest
}
