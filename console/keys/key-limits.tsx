import { useCallback } from 'preact/hooks'
import type { CallersJson, CallersRequest } from '../../src/admin/api/caller-types.ts'
import type { ChangesJson } from '../../src/admin/api/instance-types.ts'
import type { KeyJson } from '../../src/admin/api/key-types.ts'
import type { CallerValues } from '../../src/admin/api/types.ts'
import { ask } from '../api.ts'
import { openCaller } from '../callers/asked-caller.ts'
import { CallerCounters } from '../callers/caller-counters.tsx'
import { CHANGE_COLUMNS } from '../changes/change-rows.tsx'
import { usePoll } from '../live.ts'
import { addressOf } from '../navigation.ts'
import { DataTable } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'

/** As often as the view of a caller. */
const LIMITS_MS = 4000
const HISTORY_MS = 4000
/** The API takes no more values at once. */
const MAX_VALUES = 32

interface KeyLimitsProps {
  readonly keyJson: KeyJson
  /** The labels that rules read. */
  readonly read: readonly string[]
  readonly onReset: (sentence: string) => Promise<void>
}

/** Shows the limits that requests with a key are counted by, as far as they depend on the key and its labels alone. */
export function KeyLimits({ keyJson, read, onReset }: KeyLimitsProps) {
  const values = callerValues(keyJson, read)
  const name = JSON.stringify(values)
  const ask = useCallback(() => findCaller(values), [name])
  const { data, failure } = usePoll<CallersJson>(`callers?${new URLSearchParams({ values: name })}`, LIMITS_MS, ask)
  const found = data.value
  return (
    <>
      {failure.value !== undefined && <Notice tone="bad">{failure.value.message}</Notice>}
      {found?.rules.length === 0 && (
        <Panel title="Limits" isWide>
          <EmptyState>No rule of the active bundle counts by this key, or by its labels alone.</EmptyState>
        </Panel>
      )}
      {found !== undefined && found.rules.length > 0 && <CallerCounters asked={{ values }} found={found} onReset={onReset} />}
    </>
  )
}

function findCaller(values: CallerValues): Promise<CallersJson> {
  return ask<CallersJson>('POST', 'callers', { values } satisfies CallersRequest)
}

/** Returns what rules know the caller by who sends this key. */
function callerValues({ id, labels }: KeyJson, read: readonly string[]): CallerValues {
  const pairs = Object.entries(labels).filter(([name]) => read.includes(name))
  const named = pairs.map(([name, value]) => [`caller:${name}`, value] as const)
  return Object.fromEntries([['caller:id', `key:${id}`] as const, ...named].slice(0, MAX_VALUES))
}

/** Opens the view of the caller who sends this key. */
export function CallerOfKey({ keyJson, read }: { readonly keyJson: KeyJson; readonly read: readonly string[] }) {
  const open = (event: Event): void => {
    event.preventDefault()
    openCaller({ values: callerValues(keyJson, read) })
  }
  return (
    <a class="mono" href={addressOf('caller')} onClick={open}>
      caller:id=key:{keyJson.id}
    </a>
  )
}

/** Shows who issued, changed and revoked a key, as far as this instance remembers. */
export function KeyHistory({ id }: { readonly id: string }) {
  const { data, failure } = usePoll<ChangesJson>('changes?limit=500', HISTORY_MS)
  const rows = data.value?.changes.filter(({ change, id: changed }) => change.startsWith('key_') && changed === id)
  return (
    <Panel title="History" aside="changes at this instance since it was started; the log has all of them" isWide>
      {failure.value !== undefined && <Notice tone="bad">{failure.value.message}</Notice>}
      {rows !== undefined && (
        <div class="log">
          <DataTable
            caption="Changes of this key, the newest first"
            columns={CHANGE_COLUMNS}
            rows={rows}
            rowKey={({ time, change }) => `${time} ${change}`}
            empty="This instance remembers no change of this key."
          />
        </div>
      )}
    </Panel>
  )
}
