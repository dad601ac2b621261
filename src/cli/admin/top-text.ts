import type { NearCallerJson, RejectedCaller, TopJson } from '../../admin/api/caller-types.ts'
import { callerText } from '../text/caller-values.ts'
import { numberText, tableText } from '../text/text-table.ts'
import { amountText } from './counters.ts'

/** Who is rejected most, and who is nearest to a limit. */
export function topText({ since, hour, rejected, nearest, ...counted }: TopJson): string {
  const times = `REJECTS counts since ${timeText(since)}, HOUR since ${timeText(hour.since)}, all times are UTC`
  const near = 'Nearest to their limit now: LEFT is what remains of LIMIT'
  return `Rejected most: ${times}${exactnessText({ hour, ...counted })}\n${rejectedTable(rejected)}\n${near}\n${nearestTable(nearest)}`
}

/** How wrong counts may be; nothing if they are exact. */
export function exactnessText({ max_error: maxError, hour, complete }: Pick<TopJson, 'max_error' | 'hour' | 'complete'>): string {
  const recent = maxError > 0 ? `; counts may be up to ${numberText(maxError)} too high` : ''
  const ofHour = hour.max_error > 0 ? `; those of the hour may be wrong by up to ${numberText(hour.max_error)}` : ''
  const missing = complete && hour.complete ? '' : '; a worker died or did not answer, so counts may be too low'
  return `${recent}${ofHour}${missing}`
}

const WHO = [{ head: 'POLICY' }, { head: 'RULE' }, { head: 'CALLER' }]

export function rejectedTable(callers: readonly RejectedCaller[]): string {
  if (callers.length === 0) return '  nobody\n'
  const rows = callers.map(({ count, hour_count: hourCount, first_at: first, last_at: last, ...caller }) => [
    numberText(count),
    numberText(hourCount),
    timeText(first),
    timeText(last),
    ...whoCells(caller),
  ])
  const columns = [{ head: 'REJECTS', isNumber: true }, { head: 'HOUR', isNumber: true }, { head: 'FIRST' }, { head: 'LAST' }]
  return tableText([...columns, ...WHO], rows)
}

export function nearestTable(callers: readonly NearCallerJson[]): string {
  if (callers.length === 0) return '  nobody\n'
  const rows = callers.map(({ kind, period, unit, level, remaining, limit, left_percent: percent, ...caller }) => [
    amountText(level < 0 ? level : remaining, kind),
    amountText(limit, kind),
    `${percent}%`,
    countedText(kind, period, unit),
    ...whoCells(caller),
  ])
  const columns = ['LEFT', 'LIMIT', '%'].map((head) => ({ head, isNumber: true }))
  return tableText([...columns, { head: 'COUNTS' }, ...WHO], rows)
}

/** A policy in shadow mode rejects nobody, so it must not be mistaken for one that does. */
function whoCells({ policy, rule, mode, values }: Pick<NearCallerJson, 'policy' | 'rule' | 'mode' | 'values'>): string[] {
  return [mode === 'shadow' ? `${policy} (shadow)` : policy, rule, callerText(values)]
}

/** `22:04`: within an hour the date says nothing, and a terminal of 80 columns has no room for more. */
function timeText(time: string): string {
  return /T(\d\d:\d\d):/.exec(time)?.[1] ?? time
}

/** What a limit counts, and for how long: one rule may have two that differ in this alone. */
function countedText(kind: string, period: string | null, unit: string): string {
  if (kind === 'in_flight') return 'requests in flight'
  if (kind === 'minute') return `${unit} a minute`
  return period === null ? unit : `${unit} in ${period}`
}
