import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { Activity } from '../../src/admin/api/instance-types.ts'
import { useActivity } from '../activity.ts'
import { nowMs } from '../clock.ts'
import { formatZone } from '../format.ts'
import { Notice } from '../parts/notice.tsx'
import { TIME_RANGES, type TimeRange } from '../time-range.ts'
import { type Timeline, timelineOf } from '../timeline.ts'
import { momentLabel } from './time-axis.ts'

/** The choice survives a reload of the tab. */
const KEPT = 'edge_range'
/** The range of all views that have charts. */
const timeRange = signal(TIME_RANGES.find(({ name }) => name === sessionStorage.getItem(KEPT)) ?? TIME_RANGES[0]!)

interface RangeChartsProps {
  /** The last quarter of an hour, which the views poll anyway. */
  readonly live: Activity
  readonly children: (timeline: Timeline) => ComponentChildren
}

/** Lets operators choose a time range, and shows the charts of it. */
export function RangeCharts({ live, children }: RangeChartsProps) {
  const range = timeRange.value
  const now = endOf(live)
  return (
    <div class="ranged">
      <RangeChoice chosen={range} />
      {range.name === '15m' ? (
        <Charts timeline={timelineOf(live, range, now)}>{children}</Charts>
      ) : (
        <LongerCharts key={range.name} range={range} now={now}>
          {children}
        </LongerCharts>
      )}
    </div>
  )
}

/** Returns the time at which the charts end: that of the newest sample, or the present if there is none yet. */
function endOf({ samples }: Activity): string {
  return samples.at(-1)?.time ?? new Date(nowMs.peek()).toISOString()
}

function RangeChoice({ chosen }: { readonly chosen: TimeRange }) {
  return (
    <fieldset class="range">
      <legend class="unseen">Time range of the charts</legend>
      <div class="choices">
        {TIME_RANGES.map((range) => (
          <label key={range.name}>
            <input type="radio" name="range" checked={range === chosen} onChange={() => chooseRange(range)} />
            {range.label}
          </label>
        ))}
      </div>
    </fieldset>
  )
}

interface LongerChartsProps extends Pick<RangeChartsProps, 'children'> {
  readonly range: TimeRange
  readonly now: string
}

function LongerCharts({ range, now, children }: LongerChartsProps) {
  const { data, failure } = useActivity(range.name)
  return (
    <>
      {failure.value !== undefined && <Notice tone="bad">There are no new figures: {failure.value.message}</Notice>}
      {data.value !== undefined && <Charts timeline={timelineOf(data.value, range, now)}>{children}</Charts>}
    </>
  )
}

function Charts({ timeline, children }: Pick<RangeChartsProps, 'children'> & { readonly timeline: Timeline }) {
  const { times, fromS, toS, isPart } = timeline
  return (
    <>
      <p class="axis">
        {momentLabel(fromS, timeline)} to {momentLabel(toS, timeline)}, {formatZone(toS * 1000)}
        {isPart && times.length > 0 && `; nothing is known before ${momentLabel(times[0]!, timeline)}`}
      </p>
      {children(timeline)}
    </>
  )
}

function chooseRange(range: TimeRange): void {
  timeRange.value = range
  sessionStorage.setItem(KEPT, range.name)
}
