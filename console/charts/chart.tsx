import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { formatZone } from '../format.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import type { Timeline, Values } from '../timeline.ts'
import { highestPeak, scaleCut } from './chart-scale.ts'
import { linePlaces } from './line-places.ts'
import { Plot, type PlotData, type PlotParts, type PlotSeries } from './plot.ts'
import { momentLabel } from './time-axis.ts'

/** Dash patterns that tell lines apart for those who cannot see the colours. */
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2], [10, 3, 2, 3], [4, 6], [12, 4], [1, 4]]

interface ChartSeries {
  readonly name: string
  /** Colour with a meaning of its own, such as `bad`; without it, the palette provides one. */
  readonly ink?: string
  readonly values: Values
}

interface ChartProps {
  /** A description with its unit, such as `Decisions per second`. */
  readonly label: string
  readonly timeline: Timeline
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
  /** What the numbers are, such as `decisions per second`, unless `format` adds it to each of them. */
  readonly unit?: string
  /** Text to show instead of a chart without lines. */
  readonly empty: string
}

/** Shows lines over time, and below them a table with the numbers of now or of the moment under the cursor. */
export function Chart({ label, timeline, series, format, unit, empty }: ChartProps) {
  const { times, fromS, toS } = timeline
  const cursor = useSignal<number | undefined>(undefined)
  const isFull = useSignal(false)
  const places = useRef<readonly (string | undefined)[]>([])
  places.current = linePlaces(
    places.current,
    series.filter(({ ink }) => ink === undefined).map(({ name }) => name),
  )
  if (series.length === 0 || times.length === 0) return <EmptyState>{empty}</EmptyState>
  const placeOf = ({ name, ink }: ChartSeries, i: number): number => (ink === undefined ? places.current.indexOf(name) : i)
  const lines = series
    .map((one, i) => ({ ...one, place: placeOf(one, i) }))
    .sort((a, b) => a.place - b.place)
    .map(({ name, ink, values, place }) => ({ name, ink: ink ?? `line-${place + 1}`, dash: DASHES[place % DASHES.length]!, values }))
  const moment = cursor.value !== undefined && cursor.value < times.length ? cursor.value : undefined
  const cut = scaleCut(lines.map(({ values }) => values))
  const withUnit = (value: number): string => (unit === undefined ? format(value) : `${format(value)} ${unit}`)
  const momentOf = (index: number): string => momentLabel(times[index]!, timeline)
  return (
    <div class="chart">
      <Lines
        key={lines.map(({ name }) => name).join('\n')}
        label={`${label}, ${momentLabel(fromS, timeline)} to ${momentLabel(toS, timeline)} ${formatZone(toS * 1000)}. The table below has the numbers.`}
        data={{ timeline, series: lines, cut: isFull.value ? undefined : cut }}
        format={format}
        onCursor={(next) => {
          cursor.value = next
        }}
      />
      {cut !== undefined && (
        <PeakNote lines={lines} momentOf={momentOf} format={withUnit} isFull={isFull.value} onFull={(full) => (isFull.value = full)} />
      )}
      <table class="legend">
        <caption class="unseen">{label}</caption>
        <thead>
          <tr>
            <th scope="col">{unit ?? <span class="unseen">Line</span>}</th>
            <th scope="col" class="number">
              {moment === undefined ? timeline.latest : momentOf(moment)}
            </th>
            <th scope="col" class="number">
              highest
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ name, ink, dash, values }) => (
            <tr key={name}>
              <th scope="row">
                <Swatch ink={ink} dash={dash} /> {name}
              </th>
              <td class="number">{shown(values[moment ?? values.length - 1], format)}</td>
              <td class="number">{shown(highest(values), format)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

interface PeakNoteProps {
  readonly lines: readonly PlotSeries[]
  readonly momentOf: (index: number) => string
  readonly format: (value: number) => string
  readonly isFull: boolean
  readonly onFull: (isFull: boolean) => void
}

/** Says that the scale is cut off, and how high the highest value is. */
function PeakNote({ lines, momentOf, format, isFull, onFull }: PeakNoteProps) {
  const { line, index, value } = highestPeak(lines.map(({ values }) => values))!
  return (
    <p class="peaks">
      <span>
        <span aria-hidden="true">▲ </span>
        {isFull ? 'Peaks' : 'Peaks cut off,'} up to {format(value)} ({lines[line]!.name}, {momentOf(index)})
      </span>{' '}
      <button type="button" onClick={() => onFull(!isFull)}>
        {isFull ? 'Cut off peaks' : 'Full scale'}
      </button>
    </p>
  )
}

interface LinesProps extends PlotParts {
  readonly label: string
  readonly data: PlotData
}

function Lines({ label, data, format, onCursor }: LinesProps) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<Plot | undefined>(undefined)
  useEffect(() => {
    plot.current = new Plot(host.current!, data, { format, onCursor })
    return () => plot.current!.end()
    // A change of lines changes the key, which creates a new plot.
  }, [])
  useEffect(() => plot.current!.update(data), [data])
  return <div ref={host} class="plot" role="img" aria-label={label} />
}

function Swatch({ ink, dash }: { readonly ink: string; readonly dash: readonly number[] }) {
  return (
    <svg class={`ink ${ink}`} width="24" height="8" aria-hidden="true">
      <line x1="0" y1="4" x2="24" y2="4" stroke="currentColor" stroke-width="2" stroke-dasharray={dash.join(' ')} />
    </svg>
  )
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value)
}

function highest(values: Values): number | null {
  return values.reduce((most, value) => (value !== null && (most === null || value > most) ? value : most), null)
}
