export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1]
}

export function mean(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length
}

/** The median of the per-round ratios, and the quarters around it. */
export function ratio(numbers, others) {
  return quartiles(numbers.map((number, round) => number / others[round]))
}

export function quartiles(numbers) {
  return { median: median(numbers), low: percentile(numbers, 0.25), high: percentile(numbers, 0.75) }
}

export function percentile(numbers, share) {
  const sorted = Float64Array.from(numbers).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}
