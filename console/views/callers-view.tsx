import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { TopJson } from '../../src/admin/api/caller-types.ts'
import type { RuleCaller } from '../caller-values.ts'
import { CallerLookup } from '../callers/caller-lookup.tsx'
import { CountersDialog } from '../callers/counters-dialog.tsx'
import { type TopFilter, TopFilterFields, topFilter } from '../callers/top-filter.tsx'
import { hasCredential, TopTables } from '../callers/top-tables.tsx'
import { usePoll } from '../live.ts'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'

/** Shows who is rejected, who is near a limit, and what one caller has left. */
export function CallersView() {
  const filter = topFilter()
  const { data, failure } = usePoll<TopJson>(topPath(filter))
  const shown = useSignal<RuleCaller | undefined>(undefined)
  const begun = useSignal<RuleCaller>(NOBODY)
  const lookup = useRef<HTMLDivElement>(null)
  const isOff = failure.value?.code === 'top_off'
  const lookUp = (caller: RuleCaller): void => {
    if (!hasCredential(caller)) {
      shown.value = caller
      return
    }
    begun.value = caller
    // The fields exist only after the next render.
    requestAnimationFrame(() => lookup.current?.querySelector<HTMLInputElement>('input.code')?.focus())
  }
  return (
    <>
      {isOff ? (
        <EmptyState>
          Callers are not counted here: edge was started with <code>EDGE_TOP=off</code>. A caller whose values you know can be looked up
          below.
        </EmptyState>
      ) : (
        <>
          <TopFilterFields filter={filter} problem={failure.value?.message} />
          {data.value !== undefined && <TopTables top={data.value} onLookUp={lookUp} />}
        </>
      )}
      <div ref={lookup}>
        <Panel title="Look up a caller">
          {hasCredential(begun.value) && (
            <Notice tone="accent">This caller is known by a digest. Its counters are found by the credential itself.</Notice>
          )}
          <CallerLookup key={JSON.stringify(begun.value)} begun={begun.value} onFound={(caller) => (shown.value = caller)} />
        </Panel>
      </div>
      {shown.value !== undefined && <CountersDialog caller={shown.value} onClose={() => (shown.value = undefined)} />}
    </>
  )
}

const NOBODY: RuleCaller = { policy: '', rule: '', values: {} }

function topPath({ policy, rule }: TopFilter): string {
  const query = new URLSearchParams({ ...(policy !== '' && { policy }), ...(rule !== '' && { rule }) }).toString()
  return query === '' ? 'top' : `top?${query}`
}
