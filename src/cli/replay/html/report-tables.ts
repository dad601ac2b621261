import type { CallerReport, ChangedCallerReport, ReplayedBundleReport, RuleReport } from '../../../replay/replay-report.ts'
import { countText, numberText } from '../../admin/amounts.ts'
import { callerText } from '../../admin/caller-values.ts'
import { type Html, html } from './html.ts'

/** Rows of a table. */
const MAX_ROWS = 100

type Side = 'a' | 'b'

export function bundlesTable(bundles: readonly ReplayedBundleReport[], requests: number): Html {
  const heads = ['Version', 'Allowed', 'Rejected', 'Would reject']
  return table('What each bundle does', ['Bundle'], heads, bundles, (bundle, i) => {
    const { bundle_version: version, allowed, rejected, would_reject: wouldReject } = bundle
    return html`<th scope="row">${sideKey(i === 0 ? 'a' : 'b')}${bundle.file}</th><td class="number">${version}</td>${[
      allowed,
      rejected,
      wouldReject,
    ].map(
      (count) => html`<td class="number">${numberText(count)} <span class="quiet">${((100 * count) / requests).toFixed(2)} %</span></td>`,
    )}`
  })
}

export function rulesTable(rules: readonly RuleReport[], side: Side): Html {
  const most = Math.max(...rules.map(countOf))
  return table(
    'By rule, worst first',
    ['Policy', 'Rule'],
    ['Rejected', 'Would reject'],
    rules,
    (rule) => {
      const { policy, rule: name, rejected, would_reject: wouldReject, first_at: first, last_at: last } = rule
      return html`<th scope="row">${policy}</th><td class="name">${name}</td><td class="number">${numberText(rejected)}</td><td class="number">${numberText(wouldReject)}</td><td class="bar">${bar(countOf(rule), most, side)}</td><td>${first!}</td><td>${last!}</td>`
    },
    ['Share', 'First', 'Last'],
  )
}

export function callersTable(callers: readonly (CallerReport & { policy: string; rule: string })[], side: Side): Html {
  const most = Math.max(...callers.map(countOf))
  return table(
    'By caller, worst first',
    ['Caller', 'Policy', 'Rule'],
    ['Rejected', 'Would reject'],
    callers,
    (caller) => {
      const { policy, rule, values, rejected, would_reject: wouldReject = 0 } = caller
      return html`<td class="caller">${callerText(values)}</td><td class="name">${policy}</td><td class="name">${rule}</td><td class="number">${numberText(rejected)}</td><td class="number">${numberText(wouldReject)}</td><td class="bar">${bar(countOf(caller), most, side)}</td>`
    },
    ['Share'],
  )
}

export function changedCallersTable(callers: readonly ChangedCallerReport[]): Html {
  const most = Math.max(...callers.map(({ newly_rejected: rejected, newly_allowed: allowed }) => Math.max(rejected, allowed)))
  return table(
    'Callers with a difference, largest first',
    ['Caller', 'Policy', 'Rule'],
    ['Newly rejected', 'Newly allowed'],
    callers,
    (caller) => {
      const { policy, rule, values, newly_rejected: rejected, newly_allowed: allowed } = caller
      return html`<td class="caller">${callerText(values)}</td><td class="name">${policy}</td><td class="name">${rule}</td><td class="number">${numberText(rejected)}</td><td class="number">${numberText(allowed)}</td><td class="bar">${bar(rejected, most, 'b')}${bar(allowed, most, 'a')}</td>`
    },
    ['Share'],
  )
}

/** How a bundle's lines and bars look. */
export function sideKey(side: Side, isWould = false): Html {
  return html`<svg class="key" viewBox="0 0 28 14" aria-hidden="true"><line class="${side}${isWould ? ' would' : ''}" x1="0" x2="28" y1="7" y2="7"/></svg>`
}

function countOf({ rejected, would_reject: wouldReject = 0 }: Pick<CallerReport, 'rejected' | 'would_reject'>): number {
  return rejected + wouldReject
}

function bar(count: number, most: number, side: Side): Html {
  const width = count === 0 ? 0 : Math.max(0.5, (100 * count) / most)
  return html`<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="bar-${side}" x="0" y="2" height="6" width="${width.toFixed(2)}"/></svg>`
}

function table<Row>(
  caption: string,
  texts: readonly string[],
  numbers: readonly string[],
  rows: readonly Row[],
  rowCells: (row: Row, index: number) => Html,
  rest: readonly string[] = [],
): Html {
  const more = rows.length - MAX_ROWS
  return html`<div class="wide" tabindex="0" role="group" aria-label="${caption}"><table><caption>${caption}</caption>
<thead><tr>${texts.map((head) => html`<th scope="col">${head}</th>`)}${numbers.map((head) => html`<th scope="col" class="number">${head}</th>`)}${rest.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows.slice(0, MAX_ROWS).map(
    (row, i) => html`<tr>${rowCells(row, i)}</tr>
`,
  )}</tbody></table></div>
${more > 0 && html`<p class="quiet">… and ${countText(more, 'row')} more: --json lists all.</p>`}`
}
