const F32_SLACK = 2 ** -22

/**
 * How much a counter would lose if it were forgotten, judged without its rule: 0 = full or over, nothing is lost with
 * it. Up to 1 for buckets, above 1 for days.
 */
export function spentShare(level: number, atMs: number, size: number, rate: number, nowMs: number): number {
  const elapsedMs = nowMs - atMs
  // Tokens leased until `at`: what is not used by then is nobody's.
  if (rate < 0) return elapsedMs >= 0 || level <= 0 ? 0 : 1 + level / size
  if (rate === 0) return elapsedMs >= 0 ? 0 : 1 + level / size
  // Size and rate are rounded to 24 bits: err on the side of keeping.
  const missing = size * (1 + F32_SLACK) - level - (elapsedMs > 0 ? elapsedMs * rate * (1 - F32_SLACK) : 0)
  return missing > 0 ? Math.min(missing / size, 1) : 0
}
