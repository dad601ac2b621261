import type { NearCallerJson } from '../../src/admin/api/caller-types.ts'
import { debtText, leftText } from '../amounts.ts'
import { periodWords } from '../policy-words.ts'

/** Says what is left of a limit, with its unit and how long it is for, such as `3 of 60 requests per day`. One rule may have two that differ in this alone. */
export function leftWords({ kind, unit, period, level, remaining, limit }: NearCallerJson): string {
  return `${leftText(remaining, limit, unit)}${forWords(kind, period)}${debtText(level, unit)}`
}

function forWords(kind: NearCallerJson['kind'], period: string | null): string {
  if (kind === 'in_flight') return ' in flight'
  if (kind === 'minute') return ' per minute'
  if (kind === 'day') return ' per day'
  return period === null ? '' : ` per ${periodWords({ period })}`
}
