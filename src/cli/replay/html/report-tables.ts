import type { CallerReport, ChangedCallerReport, ReplayedBundleReport, RuleReport } from '../../../offline/replay/replay-report.ts'
import { callerText } from '../../text/caller-values.ts'
import { countText, numberText } from '../../text/text-table.ts'

/** Bound on the rows of a table; --json lists all. */
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

/** Draws the line style of a bundle, for legends. */
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

const WIDTH = 960
const HEIGHT = 200
/** Margins of the plot: on the left for the counts, below for the times. */
const LEFT = 64
const RIGHT = 16
const TOP = 12
const BOTTOM = 24
const PLOT_WIDTH = WIDTH - LEFT - RIGHT
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
const MOST_TICKS = 8

export interface ChartSeries {
  readonly name: string
  /** Drawn as a filled area (`all`), or as a line of the first or the second bundle. */
  readonly look: 'all' | 'a' | 'b' | 'a would' | 'b would'
  /** One count for each interval. */
  readonly counts: readonly number[]
}

/** Draws counts over time as steps, with a tooltip for each interval. */
export function timeChart(title: string, startMs: number, intervalMs: number, series: readonly ChartSeries[]): Html {
  const length = Math.max(...series.map(({ counts }) => counts.length))
  const most = niceCeiling(Math.max(1, ...series.flatMap(({ counts }) => counts)))
  const xOf = (interval: number): number => rounded(LEFT + (PLOT_WIDTH * interval) / length)
  const yOf = (count: number): number => rounded(TOP + PLOT_HEIGHT * (1 - count / most))
  return html`<div class="chart" tabindex="0" role="group" aria-label="${title}"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}, ${series.map(({ name }) => name).join(', ')}">
${[0, most / 2, most].map((count) => html`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${yOf(count)}" y2="${yOf(count)}"/><text x="${LEFT - 8}" y="${yOf(count) + 4}" text-anchor="end">${numberText(count)}</text>`)}
${timeTicks(startMs, intervalMs * length).map(({ atMs, text }) => timeLabel(xOf((atMs - startMs) / intervalMs), text))}
${series.map(({ look, counts }) => html`<path class="${look}" d="${pathOf(look, counts, length, xOf, yOf)}"/>`)}
${Array.from(
  { length },
  (
    _,
    i,
  ) => html`<rect class="hit" x="${xOf(i)}" y="${TOP}" width="${rounded(PLOT_WIDTH / length)}" height="${PLOT_HEIGHT}"><title>${timeText(startMs + i * intervalMs)}
${series.map(({ name, counts }) => `${name}: ${numberText(counts[i] ?? 0)}`).join('\n')}</title></rect>`,
)}
</svg></div>`
}

/** Half the width of the longest label, `12-31 12:00`, in any usual font. */
const HALF_LABEL = 48

/** A label at the right edge ends at its time, because one in the middle of it would be cut off. */
function timeLabel(x: number, text: string): Html {
  const anchor = x > WIDTH - HALF_LABEL ? 'end' : 'middle'
  return html`<text class="time" x="${x}" y="${HEIGHT - 6}" text-anchor="${anchor}">${text}</text>`
}

function pathOf(
  look: ChartSeries['look'],
  counts: readonly number[],
  length: number,
  xOf: (interval: number) => number,
  yOf: (count: number) => number,
): string {
  const steps = Array.from({ length }, (_, i) => `V${yOf(counts[i] ?? 0)}H${xOf(i + 1)}`).join('')
  return look === 'all' ? `M${xOf(0)} ${yOf(0)}${steps}V${yOf(0)}Z` : `M${xOf(0)} ${yOf(counts[0] ?? 0)}${steps}`
}

/** Returns a round number whose half is round, too. */
function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((nice) => nice >= value)!
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const STEPS = [1000, 5000, 15_000, 30_000, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR]

function timeTicks(startMs: number, spanMs: number): { readonly atMs: number; readonly text: string }[] {
  let step = STEPS.find((ms) => spanMs / ms <= MOST_TICKS) ?? DAY
  while (spanMs / step > MOST_TICKS) step *= 2
  const ticks: { atMs: number; text: string }[] = []
  for (let atMs = Math.ceil(startMs / step) * step; atMs <= startMs + spanMs; atMs += step) {
    ticks.push({ atMs, text: tickText(timeText(atMs), step, spanMs) })
  }
  return ticks
}

function tickText(time: string, stepMs: number, spanMs: number): string {
  if (stepMs >= DAY) return time.slice(0, 10)
  const clock = time.slice(11, stepMs < MINUTE ? 19 : 16)
  return spanMs > DAY ? `${time.slice(5, 10)} ${clock}` : clock
}

function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100
}

/** Text that is already HTML. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Content = Html | string | number | readonly Content[] | undefined | false

/** A template tag that escapes its values, except those that it made itself. */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(strings.reduce((text, part, i) => text + contentText(values[i - 1]) + part))
}

function contentText(content: Content): string {
  if (content instanceof Html) return content.text
  if (typeof content === 'string') return escaped(content)
  if (typeof content === 'number') return String(content)
  return content === undefined || content === false ? '' : content.map(contentText).join('')
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)
}
