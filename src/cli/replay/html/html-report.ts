import { createHash } from 'node:crypto'
import { REQUESTS, rejectedSeries, wouldRejectSeries } from '../../../offline/replay/replay.ts'
import type { DifferenceReport, ReplayedBundleReport, ReplayReport } from '../../../offline/replay/replay-report.ts'
import type { TimeSeries } from '../../../offline/replay/time-series.ts'
import { printableText } from '../../../text/printable.ts'
import { countText, durationText, numberText, printableTexts } from '../../text/text-table.ts'
import {
  bundlesTable,
  type ChartSeries,
  callersTable,
  changedCallersTable,
  Html,
  html,
  rulesTable,
  sideKey,
  timeChart,
} from './report-tables.ts'

/** The only style sheet of the page; its Content-Security-Policy allows no other. */
const STYLE = `
:root {
  color-scheme: light dark;
  --text: #1c2430; --quiet: #5b6675; --line: #d9dee5; --back: #ffffff; --panel: #f5f7f9;
  --all: #b9c3cf; --a: #1f6feb; --b: #b5500b; --warn: #8a5a00; --warn-back: #fff5dc;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --text: #e4e9f0; --quiet: #9aa6b5; --line: #313a46; --back: #12161c; --panel: #1a2029;
    --all: #4a5666; --a: #6cb0ff; --b: #f0a35e; --warn: #f0c674; --warn-back: #2d2615;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 68rem;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--text); background: var(--back);
}
h1 { font-size: 1.4rem; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; }
.quiet { color: var(--quiet); }
.key { display: inline-block; width: 1.4rem; height: .7rem; margin-right: .3rem; vertical-align: middle; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--a); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding: 0 0 .35rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
th { font-weight: 600; color: var(--quiet); font-size: .9em; }
td.number, th.number { text-align: right; }
tbody th, td.name, td.caller { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
td.caller { min-width: 12rem; }
td.bar { width: 30%; min-width: 8rem; }
td.bar svg, .chart svg { display: block; width: 100%; }
td.bar svg { height: 1.1rem; }
.chart { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .5rem; overflow-x: auto; }
.chart svg { min-width: 40rem; height: auto; }
.chart text { fill: var(--quiet); font-size: 12px; }
.grid { stroke: var(--line); }
.all { fill: var(--all); }
.a, .b { fill: none; stroke-width: 1.5; }
.a { stroke: var(--a); }
.b { stroke: var(--b); stroke-dasharray: 6 3; }
.would { stroke-dasharray: 1.5 2.5; }
.bar-a { fill: var(--a); }
.bar-b { fill: var(--b); }
.hit { fill: transparent; }
.hit:hover { fill: var(--quiet); fill-opacity: .18; }
.notes { padding: .6rem 1rem; border-left: 4px solid var(--warn); background: var(--warn-back); list-style: none; margin: .75rem 0; }
.notes li { margin: .15rem 0; overflow-wrap: anywhere; }
@media print {
  body { max-width: none; font-size: 11px; }
  .wide, .chart { overflow: visible; }
  .chart { break-inside: avoid; }
  .chart svg { min-width: 0; }
  th, td { padding-right: .5rem; white-space: normal; }
  td.caller, tbody th, td.name { min-width: 6rem; }
  td.bar { width: 15%; min-width: 3rem; }
}
`

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')
/** Nothing is loaded or executed, even if a value could be mistaken for HTML. */
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'`

/** Returns the report as a page in one file, without scripts or external resources. */
export function htmlReport(report: ReplayReport, series: TimeSeries, notes: readonly string[]): string {
  const shown = printableTexts(report) as ReplayReport
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
