import type { CounterJson } from '../../src/admin/api/types.ts'
import { formatDuration, formatMoney, formatNumber } from '../format.ts'

/** Words that follow the amount left, for each kind of counter. */
const LEFT: Readonly<Record<string, string>> = {
  bucket: 'left',
  minute: 'tokens left by the limit per minute',
  day: 'tokens left today',
  window: 'left in this window',
  budget: 'left of the budget',
  in_flight: 'more requests in flight allowed',
}

export function leftText(kind: string): string {
  return LEFT[kind] ?? kind
}

/** Formats an amount in the counter's unit; a budget counts in hundredths of its currency's unit. */
export function amountText(amount: number, kind: string): string {
  return kind === 'budget' ? formatMoney(amount / 100) : formatNumber(amount)
}

/** Says when the counter is full again. */
export function refillText({ kind, level, limit, reset_s: seconds }: CounterJson): string {
  if (level >= limit) return 'full'
  if (kind === 'in_flight') return 'each is free again when its request ends'
  return `full again in ${formatDuration(Math.ceil(seconds))}`
}
