import uPlot from 'uplot'
import type { Timeline, Values } from '../timeline.ts'
import { tickLabel, timeTicks } from './time-axis.ts'

const HEIGHT = 150
const Y_AXIS = 52
const X_AXIS = 24
/** Size of the mark above a value that is cut off. */
const MARK_PX = 7
const RIGHT_PX = 28
/** All charts of a view show the same moment under the cursor. */
const SYNC_KEY = 'edge'

export interface PlotSeries {
  readonly name: string
  /** A class in chart.css. */
  readonly ink: string
  readonly dash: readonly number[]
  readonly values: Values
}

/** What a plot shows. The series are always the same ones. */
export interface PlotData {
  readonly timeline: Pick<Timeline, 'times' | 'fromS' | 'toS'>
  readonly series: readonly PlotSeries[]
  /** Where the scale is cut off; undefined if it shows everything. */
  readonly cut: number | undefined
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
  #shown: PlotData

  constructor(host: HTMLElement, data: PlotData, parts: PlotParts) {
    this.#host = host
    this.#shown = data
    this.#plot = new uPlot(this.#options(data.series, parts), valuesOf(data), host)
    this.#resizes = new ResizeObserver(() => this.#plot.setSize({ width: host.clientWidth, height: HEIGHT }))
    this.#resizes.observe(host)
    this.#theme.addEventListener('change', this.#changeTheme)
  }

  update(data: PlotData): void {
    this.#shown = data
    this.#plot.setData(valuesOf(data))
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
      padding: [8, RIGHT_PX, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: { key: SYNC_KEY } },
      scales: {
        x: { range: () => [this.#shown.timeline.fromS, this.#shown.timeline.toS] },
        y: { range: (_plot, _min, max) => [0, this.#shown.cut ?? topOf(max)] },
      },
      axes: [
        {
          ...axis,
          size: X_AXIS,
          grid: { show: false },
          ticks: { show: true, stroke: grid.stroke, width: 1, size: 4 },
          splits: ({ width }, _axis, fromS, toS) => timeTicks(fromS, toS, width - Y_AXIS - RIGHT_PX),
          values: (_plot, times) => times.map(tickLabel),
        },
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
      hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? undefined)], draw: [(plot) => this.#markPeaks(plot)] },
    }
  }

  /** Draws a triangle at the top of the chart above each value that is cut off, in the colour of its line. */
  #markPeaks({ ctx, bbox, valToPos }: uPlot): void {
    const { timeline, series, cut } = this.#shown
    if (cut === undefined) return
    const size = MARK_PX * devicePixelRatio
    for (const { ink, values } of series) {
      ctx.fillStyle = this.#colour(ink)
      for (const [i, value] of values.entries()) {
        if (value === null || value <= cut) continue
        const x = valToPos(timeline.times[i]!, 'x', true)
        ctx.beginPath()
        ctx.moveTo(x, bbox.top - size / 2)
        ctx.lineTo(x - size / 2, bbox.top + size / 2)
        ctx.lineTo(x + size / 2, bbox.top + size / 2)
        ctx.fill()
      }
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

function valuesOf({ timeline, series }: PlotData): uPlot.AlignedData {
  return [[...timeline.times], ...series.map(({ values }) => [...values])]
}

/** If nothing happened, the axis ends at 1, so that noise does not fill the chart. */
function topOf(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.1
}
