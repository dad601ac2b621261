import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { formatTime } from '../format.ts'
import type { Values } from '../timeline.ts'
import { EmptyState } from './empty-state.tsx'
import { linePlaces } from './line-places.ts'
import { Plot, type PlotSeries } from './plot.ts'

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
  /** Times in seconds since the epoch. */
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
  /** Text to show instead of a chart without lines. */
  readonly empty: string
}

/** Shows lines over time, and below them a table with the numbers of now or of the moment under the cursor. */
export function Chart({ label, times, series, format, empty }: ChartProps) {
  const cursor = useSignal<number | undefined>(undefined)
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
  return (
    <div class="chart">
      <Lines
        key={lines.map(({ name }) => name).join('\n')}
        label={`${label}, ${formatTime(times[0]! * 1000)} to ${formatTime(times.at(-1)! * 1000)}. The table below has the numbers.`}
        times={times}
        lines={lines}
        format={format}
        onCursor={(next) => {
          cursor.value = next
        }}
      />
      <table class="legend">
        <caption class="unseen">{label}</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Line</span>
            </th>
            <th scope="col" class="number">
              {moment === undefined ? 'now' : formatTime(times[moment]! * 1000)}
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

interface LinesProps {
  readonly label: string
  readonly times: readonly number[]
  readonly lines: readonly PlotSeries[]
  readonly format: (value: number) => string
  readonly onCursor: (place: number | undefined) => void
}

function Lines({ label, times, lines, format, onCursor }: LinesProps) {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<Plot | undefined>(undefined)
  useEffect(() => {
    plot.current = new Plot(host.current!, times, lines, { format, onCursor })
    return () => plot.current!.end()
    // A change of lines changes the key, which creates a new plot.
  }, [])
  useEffect(() => plot.current!.update(times, lines), [times, lines])
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
