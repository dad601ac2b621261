import type { NearCallerJson, RejectedCaller, TopJson } from '../../src/admin/api/caller-types.ts'
import { counterText, leftText } from '../amounts.ts'
import type { RuleCaller } from '../caller-values.ts'
import { callerName, isCredential, isCut } from '../caller-values.ts'
import { formatNumber } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { draftOverride } from '../overrides/draft.ts'
import { Caller } from '../parts/caller.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago } from '../parts/time.tsx'

interface TopTablesProps {
  readonly top: TopJson
  readonly onLookUp: (caller: RuleCaller) => void
}

/** Shows who is rejected most, and who is nearest to a limit. */
export function TopTables({ top, onLookUp }: TopTablesProps) {
  const rejected: readonly Column<RejectedCaller>[] = [
    callerColumn(),
    { title: 'Rejected', isNumber: true, cell: ({ count }) => formatNumber(count), sortBy: ({ count }) => count },
    actionColumn(onLookUp),
  ]
  const nearest: readonly Column<NearCallerJson>[] = [
    callerColumn(),
    { title: 'Left', isNumber: true, cell: (caller) => <Left caller={caller} />, sortBy: ({ remaining, limit }) => remaining / limit },
    actionColumn(onLookUp),
  ]
  return (
    <div class="panels">
      <Panel title="Rejected most" aside={<Since top={top} />}>
        <DataTable
          caption="Callers that are rejected most"
          columns={rejected}
          rows={top.rejected.filter(({ count }) => count > 0)}
          rowKey={keyOf}
          empty="Nobody was rejected."
        />
      </Panel>
      <Panel title="Nearest to their limit" aside="now">
        <DataTable
          caption="Callers that are nearest to their limit"
          columns={nearest}
          rows={top.nearest}
          rowKey={keyOf}
          empty="Nobody was active lately."
        />
      </Panel>
    </div>
  )
}

/** Shows since when callers were counted, and how exact the counts are. */
function Since({ top: { since, max_error: maxError, complete } }: { readonly top: TopJson }) {
  return (
    <>
      since <Ago at={since} />
      {maxError > 0 && `; counts may be up to ${formatNumber(maxError)} too high`}
      {!complete && '; counts may be too low: a worker died or did not answer'}
    </>
  )
}

function callerColumn<Row extends RuleCaller>(): Column<Row> {
  return {
    title: 'Caller',
    isHeading: true,
    cell: ({ policy, rule, values }) => (
      <>
        <Caller values={values} />
        <a href={addressOf('policies', { policy })}>{policy}</a> · {rule}
      </>
    ),
    sortBy: ({ values }) => callerName(values),
  }
}

function Left({ caller }: { readonly caller: NearCallerJson }) {
  const { remaining, limit, unit } = caller
  return (
    <span title={counterText(caller, unit)}>
      {leftText(remaining, limit, unit)}
      <Level remaining={remaining} limit={limit} />
    </span>
  )
}

function actionColumn<Row extends RuleCaller>(onLookUp: (caller: RuleCaller) => void): Column<Row> {
  return {
    title: 'Actions',
    cell: (caller) => {
      const { policy, rule, values } = caller
      if (isCut(values)) return <span class="quiet">The value is cut: look it up in full.</span>
      const name = callerName(values)
      return (
        <div class="actions">
          <button type="button" onClick={() => onLookUp({ policy, rule, values })}>
            Counters<span class="unseen"> of {name}</span>
            {hasCredential(caller) && '…'}
          </button>
          <button type="button" onClick={() => draftOverride({ policy, rule, values })}>
            Override…<span class="unseen"> for {name}</span>
          </button>
        </div>
      )
    },
  }
}

export function hasCredential({ values }: RuleCaller): boolean {
  return Object.keys(values).some(isCredential)
}

function keyOf({ policy, rule, values }: RuleCaller): string {
  return JSON.stringify([policy, rule, values])
}
