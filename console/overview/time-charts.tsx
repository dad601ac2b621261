import type { ActivitySample, Quantiles } from '../../src/admin/api/instance-types.ts'
import { formatMs } from '../format.ts'
import { Chart } from '../parts/chart.tsx'
import { Panel } from '../parts/panel.tsx'
import { type Timeline, valuesOf } from '../timeline.ts'

interface TimeChartProps {
  readonly title: string
  readonly aside: string
  readonly empty: string
  readonly timeline: Timeline
  readonly quantilesOf: (sample: ActivitySample) => Quantiles | null | undefined
}

/** Shows how long decisions take, and what they wait for. */
export function TimeCharts({ timeline }: { readonly timeline: Timeline }) {
  const last = timeline.samples.at(-1)
  return (
    <>
      <TimeChart
        title="Decision time"
        aside="from the request that was read to the decision"
        empty="Nothing was decided in the last 15 minutes."
        timeline={timeline}
        quantilesOf={({ latency }) => latency}
      />
      {last?.backend && (
        <TimeChart
          title="Backend response time"
          aside="to the headers of the response"
          empty="The backend was not asked in the last 15 minutes."
          timeline={timeline}
          quantilesOf={({ backend }) => backend?.latency}
        />
      )}
      {last?.redis && (
        <TimeChart
          title="Redis round trip"
          aside="from a call to its reply"
          empty="Redis was not asked in the last 15 minutes."
          timeline={timeline}
          quantilesOf={({ redis }) => redis?.latency}
        />
      )}
    </>
  )
}

function TimeChart({ title, aside, empty, timeline, quantilesOf }: TimeChartProps) {
  const hasAny = timeline.samples.some((sample) => sample !== null && quantilesOf(sample))
  return (
    <Panel title={title} aside={aside}>
      <Chart
        label={title}
        times={timeline.times}
        format={formatMs}
        empty={empty}
        series={
          hasAny
            ? [
                { name: '99th percentile', values: valuesOf(timeline, (sample) => quantilesOf(sample)?.p99_ms) },
                { name: 'median', values: valuesOf(timeline, (sample) => quantilesOf(sample)?.p50_ms) },
              ]
            : []
        }
      />
    </Panel>
  )
}
