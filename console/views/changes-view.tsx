import { useSignal } from '@preact/signals'
import type { ChangeJson, ChangesJson } from '../../src/admin/api/instance-types.ts'
import { CHANGE_COLUMNS } from '../changes/change-rows.tsx'
import { usePoll } from '../live.ts'
import { DataTable } from '../parts/data-table.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { FilterField } from '../parts/field.tsx'
import { Kinds } from '../parts/kinds.tsx'
import { Notice } from '../parts/notice.tsx'
import { Moment } from '../parts/time.tsx'

const EVERY_MS = 4000
const FIRST_CHANGES = 100
/** As many as edge keeps. */
const MAX_CHANGES = 500
/** Kinds of changes by the first word of their names. */
const KINDS = [
  { name: '', title: 'all' },
  { name: 'bundle', title: 'bundles' },
  { name: 'override', title: 'overrides' },
  { name: 'counter', title: 'resets' },
  { name: 'key', title: 'keys' },
] as const

/** Shows who changed what, and why, newest first. */
export function ChangesView() {
  const limit = useSignal(FIRST_CHANGES)
  const kind = useSignal('')
  const filter = useSignal('')
  const { data, failure } = usePoll<ChangesJson>(`changes?limit=${limit}`, EVERY_MS)
  const all = data.value?.changes ?? []
  const ofKind = (name: string): readonly ChangeJson[] => all.filter(({ change }) => change.startsWith(name))
  const wanted = filter.value.trim().toLowerCase()
  const rows = ofKind(kind.value).filter((change) => searchedText(change).includes(wanted))
  return (
    <>
      <div class="bar">
        <FilterField placeholder="Policy, person or text" value={filter} />
      </div>
      <Kinds
        label="Kinds of changes"
        kinds={KINDS.map(({ name, title }) => ({ name: name as string, title, count: ofKind(name).length }))}
        chosen={kind.value}
        onChoose={(name) => (kind.value = name)}
      />
      {failure.value !== undefined && <Notice tone="bad">{failure.value.message}</Notice>}
      <div class="panel bare log">
        {data.value === undefined ? (
          <EmptyState>Loading.</EmptyState>
        ) : (
          <DataTable
            caption="Changes, the newest first"
            columns={CHANGE_COLUMNS}
            rows={rows}
            rowKey={keyOf}
            empty={all.length === 0 ? 'Nothing was changed.' : 'No change matches.'}
          />
        )}
      </div>
      {data.value !== undefined && <Coverage changes={data.value} limit={limit.value} onMore={() => (limit.value = MAX_CHANGES)} />}
    </>
  )
}

interface CoverageProps {
  readonly changes: ChangesJson
  readonly limit: number
  readonly onMore: () => void
}

/** Says which time the list covers, and whether it is complete. */
function Coverage({ changes: { since, complete, changes }, limit, onMore }: CoverageProps) {
  const hasMore = !complete && changes.length >= limit && limit < MAX_CHANGES
  return (
    <div class="bar">
      <p class="quiet">
        Since <Moment at={since} withDate />, when edge was started; overrides may be older. In a fleet, overrides are those of all
        instances, and bundles, resets and keys those of this one.{' '}
        {!complete && 'Older changes are missing: edge keeps the last 500, and the log has all of them.'}
      </p>
      {hasMore && (
        <button type="button" onClick={onMore}>
          Show up to {MAX_CHANGES}
        </button>
      )}
    </div>
  )
}

function searchedText({ change, actor, reason, policy, rule, values, before, after, id, source, detail }: ChangeJson): string {
  const texts = [change, actor, reason, policy, rule, before, after, id, source, detail, ...Object.values(values ?? {})]
  return texts
    .filter((text) => text !== null)
    .join(' ')
    .toLowerCase()
}

/** Two instances of a fleet may have made changes in the same millisecond. */
function keyOf({ time, change, id, policy, rule, values, after }: ChangeJson): string {
  return JSON.stringify([time, change, id, policy, rule, values, after])
}
