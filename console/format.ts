const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const THREE_DIGITS = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })
const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const MONEY = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
] as const

/** Formats a number such as `12,345`. Whole and large numbers are shown in full, others with three digits. */
export function formatNumber(value: number): string {
  return Number.isInteger(value) || Math.abs(value) >= 100 ? WHOLE.format(value) : THREE_DIGITS.format(value)
}

/** Formats a number such as `12.3K`, where space is short. */
export function formatCompact(value: number): string {
  return Math.abs(value) < 10_000 ? formatNumber(value) : COMPACT.format(value)
}

/** Formats a share between 0 and 1, such as `12.3%`. */
export function formatShare(share: number): string {
  return PERCENT.format(share)
}

/** Formats the share that a policy rejected of the requests that it covered. */
export function formatShareRejected({ allowed, rejected }: { readonly allowed: number; readonly rejected: number }): string {
  return allowed + rejected === 0 ? '–' : formatShare(rejected / (allowed + rejected))
}

/** Formats an amount of money in whole units, such as `1,234.50`. Bundles do not name the currency: `amounts.ts` adds words for it. */
export function formatMoney(units: number): string {
  return MONEY.format(units)
}

/** Formats an amount of memory, such as `123 MiB` or `1.5 GiB`. */
export function formatBytes(bytes: number): string {
  const mebibytes = bytes / 2 ** 20
  return mebibytes < 1000 ? `${formatNumber(Math.round(mebibytes))} MiB` : `${THREE_DIGITS.format(mebibytes / 1024)} GiB`
}

/** Formats a duration with its two largest units, such as `3 d 4 h`, `12 min 5 s` or `0.4 s`. */
export function formatDuration(seconds: number): string {
  if (seconds < 0) return formatDuration(0)
  if (seconds < 60) return `${formatNumber(seconds < 10 ? Math.round(seconds * 10) / 10 : Math.floor(seconds))} s`
  const found = UNITS.findIndex(([, size]) => seconds >= size)
  const [unit, size] = UNITS[found]!
  const [lesser, lesserSize] = UNITS[found + 1] ?? ['s', 1]
  const rest = Math.floor((seconds % size) / lesserSize)
  const whole = `${Math.floor(seconds / size)} ${unit}`
  return rest === 0 ? whole : `${whole} ${rest} ${lesser}`
}

/** Formats a duration such as `420 µs`, `4.2 ms` or `1.2 s`. */
export function formatMs(ms: number): string {
  if (ms >= 1000) return formatDuration(ms / 1000)
  return ms > 0 && ms < 1 ? `${formatNumber(Math.round(ms * 1000))} µs` : `${THREE_DIGITS.format(ms)} ms`
}

/** Formats a time in the operator's own zone, and names it: `14:03:07 UTC+1` today, `2026-01-31 14:03:07 UTC+1` on any other day. */
export function formatMoment(at: string | number, nowMs: number): string {
  const [date, today] = [new Date(at), new Date(nowMs)]
  return date.toDateString() === today.toDateString() ? `${clockText(date)} ${formatZone(at)}` : formatDateTime(at)
}

/** Formats a time in the operator's own zone, whatever day it is: `2026-01-31 14:03:07 UTC+1`. */
export function formatDateTime(at: string | number): string {
  const date = new Date(at)
  return `${dayText(date)} ${clockText(date)} ${formatZone(at)}`
}

/** Names the operator's own zone by its difference from UTC at a moment, such as `UTC+1`: it changes twice a year. */
export function formatZone(at: string | number): string {
  const parts = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'shortOffset' }).formatToParts(new Date(at))
  return parts
    .find(({ type }) => type === 'timeZoneName')!
    .value.replace('GMT', 'UTC')
    .replace(/^UTC[+-]0$/, 'UTC')
}

function clockText(date: Date): string {
  return date.toLocaleTimeString('en-GB')
}

function dayText(date: Date): string {
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
}

/** Formats a number with its noun, such as `1 policy` or `2 policies`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`
}
