const MAX_DIGITS = 8
const ZERO = 48
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** The milliseconds of a `grpc-timeout`: up to eight digits and a unit. No limit where it is absent (''), NaN where it is malformed. */
export function timeoutMsOf(text: string): number {
  if (text === '') return Number.POSITIVE_INFINITY
  const digits = text.length - 1
  if (digits < 1 || digits > MAX_DIGITS) return Number.NaN
  let amount = 0
  for (let at = 0; at < digits; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return Number.NaN
    amount = amount * 10 + digit
  }
  return amount * (UNIT_MS[text[digits]!] ?? Number.NaN)
}
