/** Longer values are no times. */
const MAX_LENGTH = 64
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
/** RFC 9110 5.6.7: one form to send, and two older ones that recipients must still understand. */
const DATE_FORMS = [
  /^[A-Z][a-z]{2}, (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d) GMT$/,
  /^[A-Z][a-z]{5,8}, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d) (?<year>\d{4})$/,
]

/**
 * Returns how long a response asks to wait, from its field `Retry-After` (RFC 9110 10.2.3: seconds or a date), or undefined if it does not say, or asks
 * for no wait. A date is compared with the response's own `Date`, since the server's clock may differ from ours.
 */
export function retryAfterMsOf(value: string | undefined, date: string | undefined, wallMs: number): number | undefined {
  const text = value?.trim() ?? ''
  if (text.length > MAX_LENGTH) return undefined
  const waitMs = /^\d+$/.test(text)
    ? Number(text) * 1000
    : (dateMsOf(text, wallMs) ?? Number.NaN) - (dateMsOf(date ?? '', wallMs) ?? wallMs)
  return waitMs > 0 ? waitMs : undefined
}

function dateMsOf(text: string, wallMs: number): number | undefined {
  if (text.length > MAX_LENGTH) return undefined
  for (const form of DATE_FORMS) {
    const found = form.exec(text)?.groups
    if (found === undefined) continue
    const { year, month, day, hour, minute, second } = found as Record<'year' | 'month' | 'day' | 'hour' | 'minute' | 'second', string>
    const monthIndex = MONTHS.indexOf(month)
    if (monthIndex < 0) return undefined
    return Date.UTC(year.length === 2 ? fullYear(Number(year), wallMs) : Number(year), monthIndex, Number(day), +hour, +minute, +second)
  }
  return undefined
}

/** Two digits that would be more than 50 years ahead mean the last such year (RFC 9110 5.6.7). */
function fullYear(digits: number, wallMs: number): number {
  const now = new Date(wallMs).getUTCFullYear()
  const year = now - (now % 100) + digits
  return year > now + 50 ? year - 100 : year
}
