import type { CounterJson } from '../../admin/api/types.ts'
import { durationText, moneyText, numberText } from './amounts.ts'

/** What a number of each kind of counter is about. */
const LEFT: Readonly<Record<string, string>> = {
  bucket: 'left',
  minute: 'tokens left by the limit per minute',
  day: 'tokens left today',
  window: 'left in this window',
  budget: 'left of the budget',
  in_flight: 'places free for requests in flight',
}

/** `0 of 5 left`. */
export function levelText({ kind, remaining, limit, level }: CounterJson): string {
  const debt = level < 0 ? `, ${amountText(-level, kind)} overdrawn` : ''
  return `${amountText(remaining, kind)} of ${amountText(limit, kind)} ${LEFT[kind] ?? kind}${debt}`
}

/** When it is full again. */
export function resetText({ kind, reset_s: seconds, remaining, limit }: CounterJson): string {
  if (remaining >= limit) return 'full'
  if (kind === 'in_flight') return 'each is free again when its request ends'
  return `full again in ${durationText(seconds)}`
}

/** In the counter's unit: that of a budget is a hundredth of its currency. */
export function amountText(amount: number, kind: string | undefined): string {
  return kind === 'budget' ? moneyText(amount / 100) : numberText(amount)
}
