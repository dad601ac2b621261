import type { ActivitySample, Quantiles } from '../../src/admin/api/instance-types.ts'
import { Chart } from '../charts/chart.tsx'
import { formatCompact, formatMs } from '../format.ts'
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
        empty={`Nothing was decided in ${timeline.words}.`}
        timeline={timeline}
        quantilesOf={({ latency }) => latency}
      />
      {last?.backend && (
        <TimeChart
          title="Backend response time"
          aside="to the headers of the response"
          empty={`The backend was not asked in ${timeline.words}.`}
          timeline={timeline}
          quantilesOf={({ backend }) => backend?.latency}
        />
      )}
      {last?.redis && (
        <TimeChart
          title="Redis round trip"
          aside="from a call to its reply"
          empty={`Redis was not asked in ${timeline.words}.`}
          timeline={timeline}
          quantilesOf={({ redis }) => redis?.latency}
        />
      )}
    </>
  )
}

/** Shows the memory of the process. */
export function MemoryChart({ timeline }: { readonly timeline: Timeline }) {
  return (
    <Panel title="Memory" aside="resident, of the whole process">
      <Chart
        label="Memory"
        timeline={timeline}
        format={(mebibytes) => `${formatCompact(Math.round(mebibytes))} MiB`}
        empty="There is no sample of this range yet."
        series={[{ name: 'resident', values: valuesOf(timeline, ({ memory_bytes }) => memory_bytes / 2 ** 20) }]}
      />
    </Panel>
  )
}

function TimeChart({ title, aside, empty, timeline, quantilesOf }: TimeChartProps) {
  const hasAny = timeline.samples.some((sample) => sample !== null && quantilesOf(sample))
  return (
    <Panel title={title} aside={aside}>
      <Chart
        label={title}
        timeline={timeline}
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
