import type { ReplayedBundle } from '../../offline/replay/bundle-replay.ts'
import type { UnreadableLines } from '../../offline/replay/logs/logged-request.ts'
import type { CallerReport, DifferenceReport, ReplayedBundleReport, ReplayReport, RuleReport } from '../../offline/replay/replay-report.ts'
import type { PlanRule } from '../../policy/plan.ts'
import { printableText } from '../../text/printable.ts'
import { callerText } from '../text/caller-values.ts'
import { countText, durationText, numberText, printableTexts, tableText } from '../text/text-table.ts'

/** Bounds on the rows of a table; --json lists all. */
const MAX_RULES = 20
const MAX_CALLERS = 10

/** Formats the report for people: requests, bundles, rules, callers, the difference, and notes. */
export function summaryText(report: ReplayReport, notes: readonly string[]): string {
  const { requests, unreadable, from, to, bundles, difference } = printableTexts(report) as ReplayReport
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

/** How many rules are named in a note. */
const MAX_NAMED = 3

/** Notes that a reader needs to judge the numbers: gaps in the logs, and limits of a replay. */
export function replayNotes(report: ReplayReport, bundles: readonly ReplayedBundle[], unreadable: UnreadableLines): string[] {
  const outOfOrder = report.out_of_order ?? 0
  return [
    ...unreadableNotes(unreadable),
    ...(outOfOrder === 0
      ? []
      : [`${countText(outOfOrder, 'request')} came too late in a log to be sorted by time, and counted at the time of the request before`]),
    ...report.bundles.flatMap((bundle, i) => bundleNotes(bundle, bundles[i]!, report.requests, bundles.length > 1)),
  ]
}

export function unreadableNotes({ count, shown }: UnreadableLines): string[] {
  if (count === 0) return []
  const rest = count > shown.length ? [`${numberText(count - shown.length)} more could not be read`] : []
  return [...shown.map(({ file, position, why }) => `${file === '-' ? 'standard input' : file}:${position}: ${why}`), ...rest]
}

function bundleNotes(bundle: ReplayedBundleReport, { plan }: ReplayedBundle, requests: number, isOneOfTwo: boolean): string[] {
  const { missing, refused = {}, would_wait: waits = 0, max_error: maxError = 0, forced_evictions: evictions = 0 } = bundle
  const rules = plan.policies.flatMap((policy) => policy.rules)
  const domains = plan.policies.filter(({ selector }) => selector.domain !== undefined).length
  const settled = rules.filter(({ source }) => SETTLED.has(source.algorithm))
  const notes = [
    ...Object.entries(missing).map(([key, count]) => missingNote(key, count, requests, rules)),
    ...Object.entries(refused).map(([reason, count]) => refusedNote(reason, count)),
    waits > 0 &&
      `${countText(waits, 'rejected request')} would wait first (wait_seconds); a replay does not wait, so some may be allowed in fact`,
    maxError > 0 && `counts of callers may be up to ${numberText(maxError)} too high: there are too many callers to count each`,
    evictions > 0 && `the counters of ${countText(evictions, 'caller')} were dropped, because the store was full: raise EDGE_STORE_SIZE`,
    domains > 0 &&
      `${countText(domains, 'policy', 'policies')} with a domain not replayed: logs do not contain calls of the rate limit service`,
    settled.length > 0 && `${named(settled)}: logs do not record actual usage or duration, so reservations are never settled`,
  ].filter((note) => note !== false)
  return isOneOfTwo ? notes.map((note) => `${bundle.file}: ${note}`) : notes
}

/** Algorithms whose costs are known only at the end of a request. */
const SETTLED = new Set(['token_bucket_llm', 'cost_budget', 'concurrency'])

function missingNote(key: string, count: number, requests: number, rules: readonly PlanRule[]): string {
  const needing = rules.filter((rule) => keysOf(rule).includes(key))
  const all = count === requests ? 'all' : `${numberText(count)} of`
  return `warning: ${key} is missing in ${all} ${countText(requests, 'request')}: so ${named(needing)} could not be checked for those requests`
}

function keysOf({ limitKeys, source: { match } }: PlanRule): readonly string[] {
  return typeof match === 'object' ? [...limitKeys, ...Object.keys(match)] : limitKeys
}

const REFUSAL_NOTES: Readonly<Record<string, string>> = {
  missing_original_host: ': a policy selects by host, and the log has no host',
  unknown_caller: ': callers lets only verified callers pass, and the log does not say who they are',
}

function refusedNote(reason: string, count: number): string {
  const why = REFUSAL_NOTES[reason] ?? ''
  return `warning: ${countText(count, 'request')} could be neither allowed nor rejected (${reason})${why}`
}

function named(rules: readonly PlanRule[]): string {
  const names = rules.slice(0, MAX_NAMED).map(({ policy, name }) => `${policy.id} / ${name}`)
  const rest = rules.length - names.length
  return `${names.join(', ')}${rest > 0 ? ` and ${countText(rest, 'other rule')}` : ''}`
}
