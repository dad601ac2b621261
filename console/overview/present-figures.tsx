import type { ActivitySample } from '../../src/admin/api/instance-types.ts'
import { formatBytes, formatCompact, formatMs, formatShare } from '../format.ts'
import { Figure, Figures } from '../parts/figure.tsx'
import { Panel } from '../parts/panel.tsx'
import { presentRate } from '../timeline.ts'

interface PresentFiguresProps {
  readonly samples: readonly ActivitySample[]
}

/** Shows the current activity in numbers. */
export function PresentFigures({ samples }: PresentFiguresProps) {
  const rate = (count: (sample: ActivitySample) => number): number => presentRate(samples, count) ?? 0
  const allowed = rate((sample) => sample.allowed)
  const rejected = rate((sample) => sample.rejected)
  const wouldReject = rate((sample) => sample.would_reject)
  const refused = rate((sample) => sample.refused)
  const latest = samples.findLast(({ latency }) => latency !== null)
  const backend = samples.at(-1)?.backend
  const decided = allowed + rejected
  return (
    <Panel title="Now" aside="mean of the last 10 s" isWide>
      <Figures>
        <Figure label="Decisions" value={formatCompact(decided)} unit="/s" />
        <Figure label="Allowed" value={formatCompact(allowed)} unit="/s" />
        <Figure
          label="Rejected"
          value={formatCompact(rejected)}
          unit="/s"
          {...bad(rejected)}
          note={decided > 0 ? formatShare(rejected / decided) : '–'}
        />
        <Figure label="Would reject" value={formatCompact(wouldReject)} unit="/s" note="in shadow" />
        <Figure label="Refused" value={formatCompact(refused)} unit="/s" {...bad(refused)} note="not decided" />
        <Figure label="Median" value={latest && formatMs(latest.latency!.p50_ms)} note="time to decide" />
        <Figure label="99th percentile" value={latest && formatMs(latest.latency!.p99_ms)} note="time to decide" />
        <Figure label="Memory" value={samples.length > 0 ? formatBytes(samples.at(-1)!.memory_bytes) : undefined} note="resident" />
        {backend && (
          <>
            <Figure label="To the backend" value={formatCompact(backend.in_flight)} note="in flight" />
            <Figure label="Backend failures" value={formatCompact(rate(failuresOf))} unit="/s" {...bad(rate(failuresOf))} />
          </>
        )}
      </Figures>
    </Panel>
  )
}

function bad(value: number): { tone?: 'bad' } {
  return value > 0 ? { tone: 'bad' } : {}
}

function failuresOf({ backend }: ActivitySample): number {
  return Object.values(backend?.failures ?? {}).reduce((sum, count) => sum + count, 0)
}
