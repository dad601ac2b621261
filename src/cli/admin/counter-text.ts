import { durationText, numberText } from './amounts.ts'
import type { CounterResponse } from './responses.ts'

/** `0 of 5 left in the bucket`. */
export function levelText({ kind, remaining, limit, level }: CounterResponse): string {
  const { place, amount } = KINDS[kind] ?? { place: kind, amount: numberText }
  const debt = level < 0 ? `, ${amount(-level)} overdrawn` : ''
  return `${amount(remaining)} of ${amount(limit)} ${place}${debt}`
}

/** When it is full again. */
export function resetText({ kind, reset_s: seconds, remaining, limit }: CounterResponse): string {
  if (remaining >= limit) return 'full'
  if (kind === 'in_flight') return 'places are free again as requests end'
  return `full again in ${durationText(seconds)}`
}

interface Kind {
  readonly place: string
  readonly amount: (value: number) => string
}

const KINDS: Readonly<Record<string, Kind>> = {
  bucket: { place: 'left', amount: numberText },
  minute: { place: 'tokens left by the limit per minute', amount: numberText },
  day: { place: 'tokens left today', amount: numberText },
  window: { place: 'left in this window', amount: numberText },
  // In hundredths of a unit of its currency.
  budget: { place: 'left of the budget', amount: (value) => (value / 100).toFixed(2) },
  in_flight: { place: 'places free for requests in flight', amount: numberText },
}
