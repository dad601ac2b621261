import type { InFlightAmounts, SpendingRule } from '../../src/admin/api/instance-types.ts'
import type { CounterUnit } from '../../src/admin/api/types.ts'
import { amountText, spentText } from '../amounts.ts'
import { formatCount } from '../format.ts'

interface Counted {
  readonly limit: number
  readonly reserved?: number
}

/** Returns what was used for good: what is taken from a counter, without what requests in flight have reserved and may give back. */
export function usedOf({ limit, reserved = 0 }: Counted, left: number): number {
  return Math.max(0, limit - left - reserved)
}

/** Formats what requests in flight have reserved of a counter, or a dash where that is not known. */
export function reservedText({ reserved }: Pick<Counted, 'reserved'>, unit: CounterUnit): string {
  return reserved === undefined ? '–' : amountText(reserved, unit)
}

/** Says what all requests of a rule in flight have reserved, such as `1.2K tokens (3 requests)`. */
export function inFlightText({ in_flight, unit }: SpendingRule): string {
  return in_flight === null ? '–' : heldText(in_flight, 'request', unit)
}

/** Says the same of those whose reservations grow. */
export function growingText({ in_flight, unit }: SpendingRule): string {
  return in_flight === null ? '–' : heldText(in_flight.growing, 'stream', unit)
}

function heldText({ requests, reserved }: InFlightAmounts['growing'], name: string, unit: CounterUnit): string {
  return requests === 0 ? 'none' : `${spentText(reserved, unit)} (${formatCount(requests, name)})`
}
