import { createHash } from 'node:crypto'
import { printableText } from '../../../printable-text.ts'
import type { TimeSeries } from '../../../replay/counts/time-series.ts'
import { REQUESTS, rejectedSeries, wouldRejectSeries } from '../../../replay/replay.ts'
import type { DifferenceReport, ReplayedBundleReport, ReplayReport } from '../../../replay/replay-report.ts'
import { countText, durationText, numberText } from '../../admin/amounts.ts'
import { printable } from '../../admin/printable.ts'
import { Html, html } from './html.ts'
import { STYLE } from './report-style.ts'
import { bundlesTable, callersTable, changedCallersTable, rulesTable, sideKey } from './report-tables.ts'
import { type ChartSeries, timeChart } from './time-chart.ts'

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')
/** Nothing is loaded or run, even if a value could be mistaken for HTML. */
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'`

/** The report as a page in one file: no script, nothing from elsewhere. */
export function htmlReport(report: ReplayReport, series: TimeSeries, notes: readonly string[]): string {
  const shown = printable(report) as ReplayReport
  const { requests, unreadable, from, to, bundles, difference } = shown
  const seconds = (Date.parse(to) - Date.parse(from)) / 1000
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Replay of ${bundles.map(({ file }) => file).join(' and ')}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<h1>Replay of ${bundles.map(({ file }) => file).join(' and ')}</h1>
<p>${countText(requests, 'request')} from ${from} to ${to} (${durationText(seconds)})${unreadable > 0 && `; ${countText(unreadable, 'line')} could not be read`}. Times are UTC.</p>
${notes.length > 0 && html`<ul class="notes" aria-label="Notes">${notes.map((note) => html`<li>${printableText(note)}</li>`)}</ul>`}
${bundlesTable(bundles, requests)}
${chartsPart(series, bundles)}
${difference !== undefined && differencePart(difference, bundles[1]!)}
${bundles.map(bundlePart)}
</main>
</body>
</html>
`
  return page.text
}

function chartsPart(series: TimeSeries, bundles: readonly ReplayedBundleReport[]): Html {
  const { startMs, intervalMs } = series
  const each = `per ${durationText(intervalMs / 1000)}`
  const requests: ChartSeries = { name: 'Requests', look: 'all', counts: series.countsOf(REQUESTS) }
  const rejects = bundles.flatMap(({ file, rejected, would_reject: wouldReject }, i): ChartSeries[] => {
    const side = i === 0 ? 'a' : 'b'
    const lines: ChartSeries[] = []
    if (rejected > 0 || wouldReject === 0) lines.push({ name: `Rejected, ${file}`, look: side, counts: series.countsOf(rejectedSeries(i)) })
    if (wouldReject > 0) lines.push({ name: `Would reject, ${file}`, look: `${side} would`, counts: series.countsOf(wouldRejectSeries(i)) })
    return lines
  })
  return html`<h2>Requests ${each}</h2>
${timeChart(`Requests ${each}`, startMs, intervalMs, [requests])}
<h2>Rejects ${each}</h2>
<p class="quiet">${rejects.map(({ name, look }) => html`${sideKey(look.startsWith('a') ? 'a' : 'b', look.endsWith('would'))}${name} `)}</p>
${timeChart(`Rejects ${each}`, startMs, intervalMs, rejects)}`
}

function differencePart(
  { newly_rejected: rejected, newly_allowed: allowed, callers }: DifferenceReport,
  { file }: ReplayedBundleReport,
): Html {
  return html`<h2>The difference</h2>
<p>With ${file} instead, ${countText(rejected, 'request')} newly rejected and ${numberText(allowed)} newly allowed.</p>
${callers.length > 0 && changedCallersTable(callers)}`
}

function bundlePart({ file, rules }: ReplayedBundleReport, index: number): Html {
  const active = rules.filter(({ rejected, would_reject: wouldReject }) => rejected + wouldReject > 0)
  if (active.length === 0) return html`<h2>${file}</h2><p>No rule rejects a request.</p>`
  const side = index === 0 ? 'a' : 'b'
  const callers = active
    .flatMap(({ policy, rule, callers: own }) => own.map((caller) => ({ policy, rule, ...caller })))
    .sort((x, y) => y.rejected + (y.would_reject ?? 0) - x.rejected - (x.would_reject ?? 0))
  return html`<h2>${file}: rules that reject</h2>
${rulesTable(active, side)}
<h2>${file}: callers</h2>
${callersTable(callers, side)}`
}
