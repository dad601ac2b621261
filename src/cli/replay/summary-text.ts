import { printableText } from '../../printable-text.ts'
import type { CallerReport, DifferenceReport, ReplayedBundleReport, ReplayReport, RuleReport } from '../../replay/replay-report.ts'
import { countText, durationText, numberText } from '../admin/amounts.ts'
import { callerText } from '../admin/caller-values.ts'
import { printable } from '../admin/printable.ts'
import { tableText } from '../admin/table.ts'

/** Rows of a table; --json has the rest. */
const MAX_RULES = 20
const MAX_CALLERS = 10

/** The report for people: requests, bundles, rules, callers, the difference, and what must be known about all that. */
export function summaryText(report: ReplayReport, notes: readonly string[]): string {
  const { requests, unreadable, from, to, bundles, difference } = printable(report) as ReplayReport
  const seconds = (Date.parse(to) - Date.parse(from)) / 1000
  const skipped = unreadable > 0 ? `; ${countText(unreadable, 'line')} could not be read` : ''
  const parts = [
    `${countText(requests, 'request')} from ${from} to ${to} (${durationText(seconds)})${skipped}\n`,
    tableText(
      [...OUTCOMES.map((head) => ({ head, isNumber: true })), { head: 'BUNDLE' }],
      bundles.map((bundle) => bundleRow(bundle, requests)),
    ),
    ...(difference === undefined ? [] : [differenceText(difference, bundles[1]!)]),
    ...bundles.flatMap((bundle) => bundleParts(bundle)),
    ...(notes.length === 0 ? [] : [`Notes\n${notes.map((note) => `  ${printableText(note)}\n`).join('')}`]),
  ]
  return parts.join('\n')
}

const OUTCOMES = ['ALLOWED', '%', 'REJECTED', '%', 'WOULD REJECT', '%', 'VERSION']

function bundleRow(
  { file, bundle_version: version, allowed, rejected, would_reject: wouldReject }: ReplayedBundleReport,
  requests: number,
): string[] {
  const outcomes = [allowed, rejected, wouldReject].flatMap((count) => [numberText(count), percentText(count, requests)])
  return [...outcomes, version, file]
}

function percentText(count: number, requests: number): string {
  return ((100 * count) / requests).toFixed(2)
}

function bundleParts({ file, rules }: ReplayedBundleReport): string[] {
  const active = rules.filter(({ rejected, would_reject: wouldReject }) => rejected + wouldReject > 0)
  if (active.length === 0) return [`${file}: no rule rejects a request\n`]
  const callers = active
    .flatMap(({ policy, rule, callers: own }) => own.map((caller) => ({ policy, rule, ...caller })))
    .sort((a, b) => countOf(b) - countOf(a))
  return [`${file}: rules\n${rulesText(active)}`, `${file}: callers\n${callersText(callers)}`]
}

function rulesText(rules: readonly RuleReport[]): string {
  const rows = rules
    .slice(0, MAX_RULES)
    .map(({ policy, rule, rejected, would_reject: wouldReject, first_at: first, last_at: last }) => [
      numberText(rejected),
      numberText(wouldReject),
      first!,
      last!,
      policy,
      rule,
    ])
  const heads = [{ head: 'REJECTED', isNumber: true }, { head: 'WOULD REJECT', isNumber: true }, { head: 'FIRST' }, { head: 'LAST' }]
  return tableText([...heads, { head: 'POLICY' }, { head: 'RULE' }], rows) + moreText(rules.length - MAX_RULES, 'rule')
}

function countOf({ rejected, would_reject: wouldReject = 0 }: CallerReport): number {
  return rejected + wouldReject
}

function callersText(callers: readonly (CallerReport & { policy: string; rule: string })[]): string {
  const rows = callers
    .slice(0, MAX_CALLERS)
    .map(({ policy, rule, values, rejected, would_reject: wouldReject = 0 }) => [
      numberText(rejected),
      numberText(wouldReject),
      policy,
      rule,
      callerText(values),
    ])
  const heads = [
    { head: 'REJECTED', isNumber: true },
    { head: 'WOULD REJECT', isNumber: true },
  ]
  return tableText([...heads, ...WHO], rows) + moreText(callers.length - MAX_CALLERS, 'caller')
}

const WHO = [{ head: 'POLICY' }, { head: 'RULE' }, { head: 'CALLER' }]

function differenceText(
  { newly_rejected: rejected, newly_allowed: allowed, callers }: DifferenceReport,
  { file }: ReplayedBundleReport,
): string {
  const head = `With ${file} instead: ${countText(rejected, 'request')} newly rejected, ${numberText(allowed)} newly allowed\n`
  if (callers.length === 0) return head
  const rows = callers
    .slice(0, MAX_CALLERS)
    .map((caller) => [
      numberText(caller.newly_rejected),
      numberText(caller.newly_allowed),
      caller.policy,
      caller.rule,
      callerText(caller.values),
    ])
  const heads = [
    { head: 'NEWLY REJECTED', isNumber: true },
    { head: 'NEWLY ALLOWED', isNumber: true },
  ]
  return head + tableText([...heads, ...WHO], rows) + moreText(callers.length - MAX_CALLERS, 'caller')
}

function moreText(count: number, one: string): string {
  return count > 0 ? `  … and ${countText(count, one)} more: --json lists all\n` : ''
}
