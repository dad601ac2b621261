import { useSignal } from '@preact/signals'
import type { RejectedCaller, TopJson } from '../../src/admin/api/caller-types.ts'
import { CallerLink, RuleName } from '../callers/caller-actions.tsx'
import { keyOf } from '../callers/top-tables.tsx'
import { formatNumber } from '../format.ts'
import { usePoll } from '../live.ts'
import { addressOf } from '../navigation.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Ago, Moment } from '../parts/time.tsx'

const SHOWN_CALLERS = 5

const COLUMNS: readonly Column<RejectedCaller>[] = [
  { title: 'Caller', isHeading: true, cell: ({ values }) => <CallerLink values={values} /> },
  { title: 'Policy and rule', cell: (row) => <RuleName {...row} /> },
  { title: 'Rejects', isNumber: true, cell: ({ count }) => <span class="bad">{formatNumber(count)}</span> },
  {
    title: 'Rejected since',
    isMinor: true,
    cell: ({ first_at }) => (
      <span class="when">
        <Moment at={first_at} />
      </span>
    ),
  },
  {
    title: 'Last reject',
    cell: ({ first_at, last_at }) => (
      <>
        <span class="when">
          <Ago at={last_at} />
        </span>
        <span class="narrow-only quiet">
          since <Moment at={first_at} />
        </span>
      </>
    ),
  },
]

/** Says who is rejected now, by what and since when. Rows keep their places while the cursor or the focus is among them. */
export function RejectedNow() {
  const { data, failure } = usePoll<TopJson>(`top?limit=${SHOWN_CALLERS}`)
  const isPointed = useSignal(false)
  const isFocused = useSignal(false)
  const top = data.value
  return (
    <Panel
      title="Rejected now"
      aside={
        <>
          {top !== undefined && (
            <>
              rejects since <Moment at={top.since} /> ·{' '}
            </>
          )}
          <a href={addressOf('callers')}>the whole list</a>
        </>
      }
      isWide
    >
      {failure.value?.code === 'top_off' && (
        <EmptyState>
          Callers are not counted here: edge was started with <code>EDGE_TOP=off</code>.
        </EmptyState>
      )}
      {failure.value !== undefined && failure.value.code !== 'top_off' && <Notice tone="bad">{failure.value.message}</Notice>}
      {top === undefined && failure.value === undefined && <EmptyState>Loading.</EmptyState>}
      {top !== undefined && (
        <div
          onPointerEnter={() => (isPointed.value = true)}
          onPointerLeave={() => (isPointed.value = false)}
          onFocusIn={() => (isFocused.value = true)}
          onFocusOut={() => (isFocused.value = false)}
        >
          <DataTable
            caption="Callers that are rejected now"
            columns={COLUMNS}
            rows={top.rejected.filter(({ count }) => count > 0)}
            rowKey={keyOf}
            empty="Nobody is rejected."
            {...((isPointed.value || isFocused.value) && { steadySince: 0 })}
          />
        </div>
      )}
    </Panel>
  )
}
