import { useSignal } from '@preact/signals'
import type { TopJson } from '../../src/admin/api/caller-types.ts'
import type { RuleCaller } from '../caller-values.ts'
import { CallerLookup } from '../callers/caller-lookup.tsx'
import { CountersDialog } from '../callers/counters-dialog.tsx'
import { type TopFilter, TopFilterFields, topFilter } from '../callers/top-filter.tsx'
import { TopTables } from '../callers/top-tables.tsx'
import { usePoll } from '../live.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Panel } from '../parts/panel.tsx'

/** Shows who is rejected, who is near a limit, and the counters of any rule. */
export function CallersView() {
  const filter = topFilter()
  const path = topPath(filter)
  const { data, failure } = usePoll<TopJson>(path)
  const shown = useSignal<RuleCaller | undefined>(undefined)
  const show = (caller: RuleCaller): void => {
    shown.value = caller
  }
  return (
    <>
      {failure.value?.code === 'top_off' ? (
        <EmptyState>
          Callers are not counted here: edge was started with <code>EDGE_TOP=off</code>. A caller whose values you know can be found with
          the field at the top.
        </EmptyState>
      ) : (
        <>
          <TopFilterFields filter={filter} problem={failure.value?.message} />
          {data.value !== undefined && <TopTables key={path} top={data.value} onCounters={show} />}
        </>
      )}
      <Panel title="Look up a counter" aside="of one rule; the field at the top finds a caller in all rules">
        <CallerLookup onFound={show} />
      </Panel>
      {shown.value !== undefined && <CountersDialog caller={shown.value} onClose={() => (shown.value = undefined)} />}
    </>
  )
}

function topPath({ policy, rule }: TopFilter): string {
  const query = new URLSearchParams({ ...(policy !== '' && { policy }), ...(rule !== '' && { rule }) }).toString()
  return query === '' ? 'top' : `top?${query}`
}
