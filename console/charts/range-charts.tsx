import type { ComponentChildren } from 'preact'
import type { Activity } from '../../src/admin/api/instance-types.ts'
import { useActivity } from '../activity.ts'
import { Notice } from '../parts/notice.tsx'
import { chooseRange, TIME_RANGES, type TimeRange, timeRange } from '../time-range.ts'
import { type Timeline, timelineOf } from '../timeline.ts'
import { momentLabel, zoneLabel } from './time-axis.ts'

interface RangeChartsProps {
  /** The last quarter of an hour, which the views poll anyway. */
  readonly live: Activity
  readonly children: (timeline: Timeline) => ComponentChildren
}

/** Lets operators choose a time range, and shows the charts of it. */
export function RangeCharts({ live, children }: RangeChartsProps) {
  const range = timeRange.value
  if (live.samples.length === 0) return null
  return range.name === '15m' ? (
    <Charts timeline={timelineOf(live, range)} chosen={range}>
      {children}
    </Charts>
  ) : (
    <LongerCharts key={range.name} range={range} live={live}>
      {children}
    </LongerCharts>
  )
}

function LongerCharts({ range, live, children }: RangeChartsProps & { readonly range: TimeRange }) {
  const { data, failure } = useActivity(range.name)
  const activity = data.value ?? { samples: [], interval_s: live.interval_s }
  return (
    <>
      {failure.value !== undefined && <Notice tone="bad">There are no new figures: {failure.value.message}</Notice>}
      <Charts timeline={timelineOf(activity, range, live.samples.at(-1)!.time)} chosen={range}>
        {data.value === undefined ? () => null : children}
      </Charts>
    </>
  )
}

interface ChartsProps {
  readonly timeline: Timeline
  readonly chosen: TimeRange
  readonly children: (timeline: Timeline) => ComponentChildren
}

function Charts({ timeline, chosen, children }: ChartsProps) {
  const { fromS, toS } = timeline
  return (
    <>
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
        <span class="quiet">
          {momentLabel(fromS, timeline)} to {momentLabel(toS, timeline)}, {zoneLabel(toS)}
        </span>
      </fieldset>
      {children(timeline)}
    </>
  )
}
