import uPlot from 'uplot'
import type { Values } from '../timeline.ts'

const HEIGHT = 150
const Y_AXIS = 52
const X_AXIS = 24
/** The time axis is at least this long, because a new instance has little to show. */
const MIN_SPAN_S = 120
/** All charts of a view show the same moment under the cursor. */
const SYNC_KEY = 'edge'

export interface PlotSeries {
  readonly name: string
  /** A class in chart.css. */
  readonly ink: string
  readonly dash: readonly number[]
  readonly values: Values
}

export interface PlotParts {
  readonly format: (value: number) => string
  /** Called with the index of the data under the cursor. */
  readonly onCursor: (place: number | undefined) => void
}

/** Draws lines over time on a canvas, with the style sheet's colours of the current theme. */
export class Plot {
  readonly #host: HTMLElement
  readonly #plot: uPlot
  readonly #colours = new Map<string, string>()
  readonly #resizes: ResizeObserver
  readonly #theme = matchMedia('(prefers-color-scheme: dark)')

  constructor(host: HTMLElement, times: readonly number[], series: readonly PlotSeries[], parts: PlotParts) {
    this.#host = host
    this.#plot = new uPlot(this.#options(series, parts), dataOf(times, series), host)
    this.#resizes = new ResizeObserver(() => this.#plot.setSize({ width: host.clientWidth, height: HEIGHT }))
    this.#resizes.observe(host)
    this.#theme.addEventListener('change', this.#changeTheme)
  }

  /** Replaces the data. The series must be the same ones as before. */
  update(times: readonly number[], series: readonly PlotSeries[]): void {
    this.#plot.setData(dataOf(times, series))
  }

  end(): void {
    this.#theme.removeEventListener('change', this.#changeTheme)
    this.#resizes.disconnect()
    this.#plot.destroy()
  }

  readonly #changeTheme = (): void => {
    this.#colours.clear()
    this.#plot.redraw()
  }

  #options(series: readonly PlotSeries[], { format, onCursor }: PlotParts): uPlot.Options {
    const axis = { stroke: () => this.#colour('quiet'), font: `11px ${getComputedStyle(this.#host).fontFamily}` }
    const grid = { stroke: () => this.#colour('grid'), width: 1 }
    return {
      width: this.#host.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 28, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: { key: SYNC_KEY } },
      scales: {
        x: { range: (_plot, min, max) => [Math.min(min, max - MIN_SPAN_S), max] },
        y: { range: (_plot, _min, max) => [0, topOf(max)] },
      },
      axes: [
        { ...axis, size: X_AXIS, space: 70, grid: { show: false }, ticks: { show: false }, values: (_plot, times) => times.map(minuteOf) },
        { ...axis, size: Y_AXIS, space: 32, grid, ticks: { show: false }, values: (_plot, values) => values.map(format) },
      ],
      series: [
        {},
        ...series.map(({ ink, dash }) => ({
          stroke: () => this.#colour(ink),
          width: 1.5,
          dash: [...dash],
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? undefined)] },
    }
  }

  /** Resolves a colour of the style sheet, because a canvas cannot use its variables. */
  #colour(ink: string): string {
    let colour = this.#colours.get(ink)
    if (colour === undefined) {
      const probe = this.#host.appendChild(document.createElement('span'))
      probe.className = `ink ${ink}`
      colour = getComputedStyle(probe).color
      probe.remove()
      this.#colours.set(ink, colour)
    }
    return colour
  }
}

function dataOf(times: readonly number[], series: readonly PlotSeries[]): uPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])]
}

/** If nothing happened, the axis ends at 1, so that noise does not fill the chart. */
function topOf(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.1
}

function minuteOf(time: number): string {
  return new Date(time * 1000).toLocaleTimeString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    second: time % 60 === 0 ? undefined : '2-digit',
  })
}
