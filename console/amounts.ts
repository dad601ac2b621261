import type { CounterJson, CounterUnit } from '../src/admin/api/types.ts'
import { formatCompact, formatDuration, formatMoney, formatNumber } from './format.ts'

/** One and several of each unit. Bundles do not name their currency, and budgets may be in different ones. */
const NAMES: Readonly<Record<CounterUnit, readonly [one: string, many: string]>> = {
  requests: ['request', 'requests'],
  tokens: ['token', 'tokens'],
  money: ['currency unit', 'currency units'],
  units: ['unit', 'units'],
}

/** Formats an amount of a counter with its unit, such as `1,200 tokens`. */
export function amountText(amount: number, unit: CounterUnit): string {
  return withUnit(bareAmount(amount, unit), unit)
}

/** Formats what is left of a limit with its unit, such as `0 of 4 requests`. */
export function leftText(left: number, limit: number, unit: CounterUnit): string {
  return `${bareAmount(left, unit)} of ${amountText(limit, unit)}`
}

/** Formats a rate with its unit, such as `60 requests per minute`. Money is in units of its currency, not in hundredths as in a counter. */
export function perText(amount: number, unit: CounterUnit, period: string): string {
  return `${withUnit(unit === 'money' ? formatMoney(amount) : formatNumber(amount), unit)} per ${period}`
}

/** Formats an amount that was spent, where space is short, such as `12.3K tokens`. Money is in units of its currency. */
export function spentText(amount: number, unit: CounterUnit): string {
  return withUnit(bareSpent(amount, unit), unit)
}

/** Formats it without its unit, for charts and columns whose heading has the unit. A request may cost much less than a hundredth of a currency's unit. */
export function bareSpent(amount: number, unit: CounterUnit): string {
  if (unit !== 'money') return formatCompact(amount)
  return amount > 0 && amount < 0.1 ? SMALL_MONEY.format(amount) : formatMoney(amount)
}

const SMALL_MONEY = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 })

/** Formats an amount of a counter without its unit; counters of money count hundredths of a currency's unit. */
function bareAmount(amount: number, unit: CounterUnit): string {
  return unit === 'money' ? formatMoney(amount / 100) : formatNumber(amount)
}

/** Names the unit of amounts, such as `requests`. */
export function unitName(unit: CounterUnit): string {
  return NAMES[unit][1]
}

/** Words that follow what is left, for each kind of counter. */
const LEFT: Readonly<Record<CounterJson['kind'], string>> = {
  bucket: 'left',
  minute: 'left of the limit per minute',
  day: 'left today',
  window: 'left in this window',
  budget: 'left of the budget',
  in_flight: 'can still be in flight',
}

/** Says how much is left and of what, such as `0 of 4 requests left in this window`. */
export function counterText({ kind, level, remaining, limit }: Omit<CounterJson, 'reset_s'>, unit: CounterUnit): string {
  return `${leftText(remaining, limit, unit)} ${LEFT[kind] ?? `left (${kind})`}${debtText(level, unit)}`
}

/** Says how much more was used than the limit, such as `, 7.4 million tokens over`; nothing where that is not so. */
export function debtText(level: number, unit: CounterUnit): string {
  return level < 0 ? `, ${amountText(-level, unit)} over` : ''
}

const UNITS: Readonly<Partial<Record<CounterJson['kind'], CounterUnit>>> = {
  minute: 'tokens',
  day: 'tokens',
  budget: 'money',
  in_flight: 'requests',
}

/** Returns the unit of a counter of which only the kind is known, and what one request takes from it. */
export function unitOf(kind: CounterJson['kind'] | undefined, cost: number | null): CounterUnit {
  return (kind && UNITS[kind]) ?? (cost === 1 ? 'requests' : 'units')
}

/** Says when the counter is full again. */
export function refillText({ kind, level, limit, reset_s: seconds }: CounterJson): string {
  if (level >= limit) return 'full'
  if (kind === 'in_flight') return 'each is free again when its request ends'
  return `full again in ${formatDuration(Math.ceil(seconds))}`
}

function withUnit(text: string, unit: CounterUnit): string {
  const [one, many] = NAMES[unit]
  return `${text} ${Number(text) === 1 ? one : many}`
}
