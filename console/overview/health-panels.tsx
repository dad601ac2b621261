import type { Activity, KeySetJson, Status, WorkerActivity } from '../../src/admin/api/instance-types.ts'
import { formatBytes, formatCompact, formatMs, formatNumber, formatShare } from '../format.ts'
import { Badge } from '../parts/badge.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Facts } from '../parts/facts.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { presentRate } from '../timeline.ts'

interface HealthProps {
  readonly status: Status
  readonly activity: Activity
}

/** Shows the parts of the instance and their health. */
export function HealthPanels(props: HealthProps) {
  return (
    <div class="panels health">
      <Workers {...props} />
      <Store {...props} />
      {props.status.redis !== null && <Redis {...props} />}
      {props.status.key_sets.length > 0 && <KeySets keySets={props.status.key_sets} />}
    </div>
  )
}

function Workers({ status: { workers }, activity }: HealthProps) {
  const seconds = activity.samples.at(-1)?.seconds ?? 1
  const missing = workers.configured - workers.alive
  return (
    <Panel
      title="Workers"
      aside={missing === 0 ? <Badge tone="good">all alive</Badge> : <Badge tone="bad">{missing} being replaced</Badge>}
    >
      <DataTable
        caption="Workers and how busy they are"
        columns={workerColumns(seconds)}
        rows={activity.workers}
        rowKey={({ worker }) => worker}
        empty="No worker has started yet."
      />
    </Panel>
  )
}

function workerColumns(seconds: number): Column<WorkerActivity>[] {
  return [
    { title: 'Worker', isHeading: true, cell: ({ worker }) => worker },
    { title: 'Decisions/s', isNumber: true, cell: ({ decisions }) => formatCompact(decisions / seconds) },
    { title: 'Busy', isNumber: true, cell: ({ busy_ratio }) => formatShare(busy_ratio) },
    { title: 'Connections', isNumber: true, isMinor: true, cell: ({ connections }) => formatNumber(connections) },
    { title: 'Heap', isNumber: true, cell: ({ heap_bytes }) => formatBytes(heap_bytes) },
  ]
}

function Store({ status: { store, state_file }, activity: { samples } }: HealthProps) {
  const evicted = samples.reduce((sum, sample) => sum + sample.store.evicted, 0)
  return (
    <Panel title="Store" aside={evicted === 0 ? <Badge tone="good">nothing evicted</Badge> : <Badge tone="warn">counters evicted</Badge>}>
      <Facts
        facts={[
          ['Counters', store.kind === 'redis' ? 'in Redis; local counters while it is unreachable' : 'in memory'],
          ['In use', `${formatNumber(store.occupied)} of ${formatNumber(store.slots)} (${formatShare(store.occupied / store.slots)})`],
          ['Evicted early', `${formatNumber(evicted)} in the last 15 minutes${evicted === 0 ? '' : ': raise EDGE_STORE_SIZE'}`],
          ['State file', <StateFile key="file" file={state_file} />],
        ]}
      />
    </Panel>
  )
}

function KeySets({ keySets }: { readonly keySets: readonly KeySetJson[] }) {
  const failing = keySets.filter(({ problem }) => problem !== null).length
  return (
    <Panel
      title="Key sets of issuers"
      aside={failing === 0 ? <Badge tone="good">all read</Badge> : <Badge tone="bad">{formatNumber(failing)} failing</Badge>}
    >
      <DataTable
        caption="Key sets that verify tokens, by issuer"
        columns={KEY_SET_COLUMNS}
        rows={keySets}
        rowKey={({ issuer }) => issuer}
        empty="The bundle names no issuer."
      />
    </Panel>
  )
}

const KEY_SET_COLUMNS: readonly Column<KeySetJson>[] = [
  {
    title: 'Issuer',
    isHeading: true,
    cell: ({ issuer, url, path }) => (
      <>
        {issuer} <div class="quiet mono">{url ?? path}</div>
      </>
    ),
  },
  { title: 'Keys', isNumber: true, cell: ({ keys }) => formatNumber(keys) },
  { title: 'Read', cell: ({ read_at }) => (read_at === null ? 'never' : <Ago at={read_at} />) },
  { title: 'Problem', cell: KeySetProblem },
]

function KeySetProblem({ problem, failing_since }: KeySetJson) {
  if (problem === null) return <>none</>
  return (
    <span class="bad">
      {problem}, since <Moment at={failing_since!} />
    </span>
  )
}

function StateFile({ file }: { readonly file: Status['state_file'] }) {
  if (file === null) return <>none: a restart begins with full counters</>
  return (
    <>
      <span class="mono">{file.path}</span>,{' '}
      {file.saved_at === null ? (
        'not saved yet'
      ) : (
        <>
          saved <Ago at={file.saved_at} />
        </>
      )}
    </>
  )
}

function Redis({ status: { redis }, activity: { samples } }: HealthProps) {
  const last = samples.findLast((sample) => sample.redis !== null)?.redis
  const rate = (count: (checks: Readonly<Record<string, number>>) => number): string => {
    return `${formatCompact(presentRate(samples, (sample) => count(sample.redis?.checks ?? {})) ?? 0)} /s`
  }
  const errors = samples.reduce((sum, sample) => sum + Object.values(sample.redis?.errors ?? {}).reduce((all, count) => all + count, 0), 0)
  return (
    <Panel title="Redis" aside={redis!.connected ? <Badge tone="good">connected</Badge> : <Badge tone="bad">unreachable</Badge>}>
      <Facts
        facts={[
          ['Mode', redis!.mode],
          ['Decided by Redis', rate(({ redis: count = 0 }) => count)],
          ['By leases', rate(({ lease = 0, refusal = 0 }) => lease + refusal)],
          ['By the failure mode', rate(({ failure_mode = 0 }) => failure_mode)],
          [
            'Round trip',
            last?.latency ? `${formatMs(last.latency.p50_ms)} median, ${formatMs(last.latency.p99_ms)} 99th percentile` : 'none now',
          ],
          ['Failed calls', `${formatNumber(errors)} in the last 15 minutes`],
        ]}
      />
    </Panel>
  )
}
