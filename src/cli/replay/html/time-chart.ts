import { numberText } from '../../admin/amounts.ts'
import { type Html, html } from './html.ts'

const WIDTH = 960
const HEIGHT = 200
/** Around the plot: for the numbers at its left, and the times below it. */
const LEFT = 64
const RIGHT = 16
const TOP = 12
const BOTTOM = 24
const PLOT_WIDTH = WIDTH - LEFT - RIGHT
const PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
const MOST_TICKS = 8

export interface ChartSeries {
  readonly name: string
  /** How it is drawn: a filled area, or a line of the first or the second bundle. */
  readonly look: 'all' | 'a' | 'b' | 'a would' | 'b would'
  /** Of each interval. */
  readonly counts: readonly number[]
}

/** Counts over time as steps, with the numbers of an interval where the pointer is. */
export function timeChart(title: string, startMs: number, intervalMs: number, series: readonly ChartSeries[]): Html {
  const length = Math.max(...series.map(({ counts }) => counts.length))
  const most = niceCeiling(Math.max(1, ...series.flatMap(({ counts }) => counts)))
  const xOf = (interval: number): number => rounded(LEFT + (PLOT_WIDTH * interval) / length)
  const yOf = (count: number): number => rounded(TOP + PLOT_HEIGHT * (1 - count / most))
  return html`<div class="chart" tabindex="0" role="group" aria-label="${title}"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}, ${series.map(({ name }) => name).join(', ')}">
${[0, most / 2, most].map((count) => html`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${yOf(count)}" y2="${yOf(count)}"/><text x="${LEFT - 8}" y="${yOf(count) + 4}" text-anchor="end">${numberText(count)}</text>`)}
${timeTicks(startMs, intervalMs * length).map(({ atMs, text }) => html`<text x="${xOf((atMs - startMs) / intervalMs)}" y="${HEIGHT - 6}" text-anchor="middle">${text}</text>`)}
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

/** A round number, whose half is one too. */
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
