const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
] as const

/** A time in its two largest units, rounded up to whole seconds: `2 h 5 min`. */
export function durationText(seconds: number): string {
  let rest = Math.ceil(seconds)
  const parts: string[] = []
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0) parts.push(`${count} ${unit}`)
    else if (parts.length > 0) break
  }
  return parts.slice(0, 2).join(' ') || '0 s'
}

/** `1,048,576`; fractions have up to two digits. */
export function numberText(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 2 })
}

/** `1 policy`, `2 policies`. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${numberText(count)} ${count === 1 ? one : many}`
}

/** At least two digits of a fraction, and as many as a single request costs. */
export function moneyText(value: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 })
}
