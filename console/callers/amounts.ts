import { formatDuration, formatMoney, formatNumber } from '../format.ts'
import type { Counter } from './caller.ts'

/** What each kind of counter limits. */
const KINDS: Readonly<Record<string, string>> = {
  bucket: 'requests',
  minute: 'tokens, by the limit per minute',
  day: 'tokens today',
  window: 'requests in this window',
  budget: 'of the budget',
  in_flight: 'requests in flight',
}

export function kindText(kind: string): string {
  return KINDS[kind] ?? kind
}

/** In the counter's unit: that of a budget is a hundredth of its currency. */
export function amountText(amount: number, kind: string): string {
  return kind === 'budget' ? formatMoney(amount / 100) : formatNumber(amount)
}

/** When it is full again. */
export function refillText({ kind, level, limit, reset_s: seconds }: Counter): string {
  if (level >= limit) return 'full'
  if (kind === 'in_flight') return 'each is free again when its request ends'
  return `full again in ${formatDuration(Math.ceil(seconds))}`
}
