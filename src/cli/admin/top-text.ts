import type { NearCallerJson, RejectedCaller, TopJson } from '../../admin/api/types.ts'
import { numberText } from './amounts.ts'
import { callerText } from './caller-values.ts'
import { amountText } from './counter-text.ts'
import { tableText } from './table.ts'

/** Who is rejected most, and who is nearest to a limit. */
export function topText({ since, max_error: maxError, complete, rejected, nearest }: TopJson): string {
  const error = maxError > 0 ? `; counts may be up to ${numberText(maxError)} too high` : ''
  const missing = complete ? '' : '; a worker died or did not answer, so counts may be too low'
  return `Rejected most since ${since}${error}${missing}\n${rejectedText(rejected)}\nNearest to their limit now\n${nearestText(nearest)}`
}

const WHO = [{ head: 'POLICY' }, { head: 'RULE' }, { head: 'CALLER' }]

function rejectedText(callers: readonly RejectedCaller[]): string {
  if (callers.length === 0) return '  nobody\n'
  const rows = callers.map(({ count, policy, rule, values }) => [numberText(count), policy, rule, callerText(values)])
  return tableText([{ head: 'REJECTS', isNumber: true }, ...WHO], rows)
}

function nearestText(callers: readonly NearCallerJson[]): string {
  if (callers.length === 0) return '  nobody\n'
  const rows = callers.map(({ kind, remaining, limit, policy, rule, values }) => [
    amountText(remaining, kind),
    amountText(limit, kind),
    policy,
    rule,
    callerText(values),
  ])
  return tableText([{ head: 'LEFT', isNumber: true }, { head: 'LIMIT', isNumber: true }, ...WHO], rows)
}
