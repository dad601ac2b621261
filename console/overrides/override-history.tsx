import type { EndedOverrideJson, OverrideHistory as History } from '../../src/admin/api/types.ts'
import { formatCount } from '../format.ts'
import type { Poll } from '../live.ts'
import { Copyable } from '../parts/copyable.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { Moment } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { changeText } from './change-words.ts'
import { Origin, Subject } from './override-facts.tsx'

const ENDS: Readonly<Record<EndedOverrideJson['ended']['why'], string>> = {
  ended: 'Ended',
  replaced: 'Replaced',
  edited: 'Edited',
  over: 'Expired',
}

const COLUMNS: readonly Column<EndedOverrideJson>[] = [
  { title: 'What it did', isHeading: true, cell: (override) => <strong>{changeText(override)}</strong> },
  { title: 'Who it was for', cell: (override) => <Subject override={override} isLinked /> },
  { title: 'Why, and by whom', cell: (override) => <Origin override={override} /> },
  { title: 'How it ended', cell: End, sortBy: ({ ended }) => Date.parse(ended.at) },
  { title: 'Id', cell: ({ id }) => <Copyable name="id" text={id} /> },
]

/** Lists the overrides that are over, or as they were before an edit; the latest first. `named` is the id in the address. */
export function OverrideHistory({ poll, named }: { readonly poll: Poll<History>; readonly named: string | null }) {
  const overrides = poll.data.value?.overrides
  return (
    <Panel
      title="History"
      aside={overrides && `${formatCount(overrides.length, 'entry', 'entries')} since this instance started, at most 200`}
      isWide
    >
      {overrides !== undefined && (
        <DataTable
          caption="Overrides that have ended"
          columns={COLUMNS}
          rows={overrides}
          rowKey={({ id, ended }) => `${id} ${ended.at}`}
          empty="No override has ended since this instance started. The log has earlier ones."
          isStacked
          isNamed={({ id }) => id === named}
        />
      )}
      {poll.failure.value !== undefined && <Notice tone="bad">{poll.failure.value.message}</Notice>}
    </Panel>
  )
}

function End({ ended: { at, why, actor, reason } }: EndedOverrideJson) {
  return (
    <>
      {ENDS[why]} <Moment at={at} />
      {actor !== null && (
        <p class="note">
          {printable(actor)}: {printable(reason ?? '')}
        </p>
      )}
    </>
  )
}
