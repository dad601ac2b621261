import type { PlanRule } from '../../policy/plan.ts'
import type { ReplayedBundle } from '../../replay/bundle-replay.ts'
import type { ReplayedBundleReport, ReplayReport } from '../../replay/replay-report.ts'
import type { UnreadableLines } from '../../replay/unreadable-lines.ts'
import { countText, numberText } from '../admin/amounts.ts'

/** Rules that are named in a note. */
const MAX_NAMED = 3

/** What a reader must know to trust the numbers: what the logs do not say, and what a replay cannot. */
export function replayNotes(report: ReplayReport, bundles: readonly ReplayedBundle[], unreadable: UnreadableLines): string[] {
  const outOfOrder = report.out_of_order ?? 0
  return [
    ...unreadableNotes(unreadable),
    ...(outOfOrder === 0
      ? []
      : [`${countText(outOfOrder, 'request')} stood too late in a log to be put in order, and counted at the time of the request before`]),
    ...report.bundles.flatMap((bundle, i) => bundleNotes(bundle, bundles[i]!, report.requests, bundles.length > 1)),
  ]
}

export function unreadableNotes({ count, shown }: UnreadableLines): string[] {
  if (count === 0) return []
  const rest = count > shown.length ? [`${numberText(count - shown.length)} more could not be read`] : []
  return [...shown.map(({ file, place, why }) => `${file === '-' ? 'standard input' : file}:${place}: ${why}`), ...rest]
}

function bundleNotes(bundle: ReplayedBundleReport, { plan }: ReplayedBundle, requests: number, isOneOfTwo: boolean): string[] {
  const { missing, refused = {}, max_error: maxError = 0, forced_evictions: evictions = 0 } = bundle
  const rules = plan.policies.flatMap((policy) => policy.rules)
  const domains = plan.policies.filter(({ selector }) => selector.domain !== undefined).length
  const settled = rules.filter(({ source }) => SETTLED.has(source.algorithm))
  const notes = [
    ...Object.entries(missing).map(([key, count]) => missingNote(key, count, requests, rules)),
    ...Object.entries(refused).map(([reason, count]) => refusedNote(reason, count)),
    maxError > 0 && `counts of callers may be up to ${numberText(maxError)} too high: there are too many callers to count each`,
    evictions > 0 && `the counters of ${countText(evictions, 'caller')} were dropped, because the store was full: raise EDGE_STORE_SIZE`,
    domains > 0 && `${countText(domains, 'policy', 'policies')} with a domain not replayed: logs have no calls of the rate limit service`,
    settled.length > 0 && `${named(settled)}: what requests really used, and how long they took, is not in a log: reservations stay taken`,
  ].filter((note) => note !== false)
  return isOneOfTwo ? notes.map((note) => `${bundle.file}: ${note}`) : notes
}

/** Algorithms whose costs are known at the end of a request. */
const SETTLED = new Set(['token_bucket_llm', 'cost_budget', 'concurrency'])

function missingNote(key: string, count: number, requests: number, rules: readonly PlanRule[]): string {
  const needing = rules.filter((rule) => keysOf(rule).includes(key))
  const all = count === requests ? 'all' : `${numberText(count)} of`
  return `warning: ${key} is missing in ${all} ${countText(requests, 'request')}: about those, the logs say nothing of ${named(needing)}`
}

function keysOf({ limitKeys, source: { match } }: PlanRule): readonly string[] {
  return typeof match === 'object' ? [...limitKeys, ...Object.keys(match)] : limitKeys
}

function refusedNote(reason: string, count: number): string {
  const why = reason === 'missing_original_host' ? ': a policy selects by host, and the log names none' : ''
  return `warning: ${countText(count, 'request')} could be neither allowed nor rejected (${reason})${why}`
}

function named(rules: readonly PlanRule[]): string {
  const names = rules.slice(0, MAX_NAMED).map(({ policy, name }) => `${policy.id} / ${name}`)
  const rest = rules.length - names.length
  return `${names.join(', ')}${rest > 0 ? ` and ${countText(rest, 'other rule')}` : ''}`
}
