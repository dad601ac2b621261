import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { NearCallerJson, RejectedCaller, TopJson } from '../../src/admin/api/caller-types.ts'
import { callerName, type RuleCaller } from '../caller-values.ts'
import { formatNumber } from '../format.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { CallerActions, CallerLink, RuleName } from './caller-actions.tsx'
import { leftWords } from './left-words.ts'

interface TopTablesProps {
  readonly top: TopJson
  /** Called for the counters of a rule that all callers share. Those of one caller are in its own view. */
  readonly onCounters: (caller: RuleCaller) => void
}

/** Shows who is rejected most, and who is nearest to a limit. Rows stay in their places until somebody asks for another order. */
export function TopTables({ top, onCounters }: TopTablesProps) {
  const turn = useSignal(0)
  const sortAgain = (
    <button type="button" onClick={() => turn.value++}>
      Sort again
    </button>
  )
  return (
    <>
      <Panel
        title="Rejected most"
        aside={
          <>
            <Since top={top} /> {sortAgain}
          </>
        }
        isWide
      >
        <DataTable
          caption="Callers that are rejected most"
          columns={[...rejectColumns(), actionColumn(onCounters)]}
          rows={top.rejected}
          rowKey={keyOf}
          empty="Nobody was rejected."
          steadySince={turn.value}
        />
      </Panel>
      <Panel title="Nearest to their limit" aside={<>now, of the last ten minutes {sortAgain}</>} isWide>
        <DataTable
          caption="Callers that are nearest to their limit"
          columns={[...nearColumns(), actionColumn(onCounters)]}
          rows={top.nearest}
          rowKey={keyOf}
          empty="Nobody was active lately."
          steadySince={turn.value}
        />
      </Panel>
    </>
  )
}

/** Who was rejected, how often and when. */
export function rejectColumns(): Column<RejectedCaller>[] {
  return [
    { title: 'Caller', isHeading: true, cell: (row) => <RejectedWho row={row} />, sortBy: ({ values }) => callerName(values) },
    { title: 'Rejects, last minutes', isNumber: true, cell: ({ count }) => formatNumber(count), sortBy: ({ count }) => count },
    {
      title: 'Last hour',
      isNumber: true,
      isMinor: true,
      cell: ({ hour_count }) => formatNumber(hour_count),
      sortBy: (row) => row.hour_count,
    },
    {
      title: 'First',
      isMinor: true,
      cell: ({ first_at }) => (
        <When>
          <Moment at={first_at} />
        </When>
      ),
      sortBy: (row) => row.first_at,
    },
    {
      title: 'Last',
      isMinor: true,
      cell: ({ last_at }) => (
        <When>
          <Ago at={last_at} />
        </When>
      ),
      sortBy: (row) => row.last_at,
    },
  ]
}

/** Who has little left, of what, and how much. */
export function nearColumns(): Column<NearCallerJson>[] {
  return [
    { title: 'Caller', isHeading: true, cell: (row) => <Who row={row} />, sortBy: ({ values }) => callerName(values) },
    { title: 'Left', isNumber: true, cell: (row) => <Left row={row} />, sortBy: ({ remaining, limit }) => remaining / limit },
  ]
}

export function keyOf({ policy, rule, values }: RuleCaller): string {
  return JSON.stringify([policy, rule, values])
}

/** Says since when callers were counted, and how exact the counts are. */
export function Since({ top: { since, max_error: maxError, complete, hour } }: { readonly top: TopJson }) {
  return (
    <>
      last minutes: since <Moment at={since} />, last hour: since <Moment at={hour.since} />
      {maxError > 0 && `; counts may be up to ${formatNumber(maxError)} too high`}
      {hour.max_error > 0 && `; those of the hour may be wrong by up to ${formatNumber(hour.max_error)}`}
      {!(complete && hour.complete) && '; counts may be too low: a worker died or did not answer'}
    </>
  )
}

function actionColumn<Row extends RuleCaller>(onCounters: (caller: RuleCaller) => void): Column<Row> {
  return {
    title: 'Actions',
    cell: ({ policy, rule, values }) =>
      Object.keys(values).length > 0 ? (
        <CallerActions caller={{ policy, rule, values }} />
      ) : (
        <CallerActions caller={{ policy, rule, values }} onCounters={() => onCounters({ policy, rule, values })} />
      ),
  }
}

type RowOfTop = Pick<RejectedCaller, 'policy' | 'rule' | 'mode' | 'values'>

function Who({ row }: { readonly row: RowOfTop }) {
  return (
    <>
      <CallerLink values={row.values} />
      <RuleName {...row} />
    </>
  )
}

/** On a phone there is no room for more columns. */
function RejectedWho({ row }: { readonly row: RejectedCaller }) {
  return (
    <>
      <Who row={row} />
      <span class="narrow-only quiet">
        {formatNumber(row.hour_count)} in the last hour, first <Moment at={row.first_at} />, last <Ago at={row.last_at} />
      </span>
    </>
  )
}

function When({ children }: { readonly children: ComponentChildren }) {
  return <span class="when">{children}</span>
}

function Left({ row }: { readonly row: NearCallerJson }) {
  return (
    <>
      {leftWords(row)}, <span class="quiet">{row.left_percent} %</span>
      <Level remaining={row.remaining} limit={row.limit} />
    </>
  )
}
