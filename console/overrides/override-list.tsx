import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Ago, Countdown } from '../parts/time.tsx'
import { changeText, type Override } from './override.ts'

interface OverrideListProps {
  readonly overrides: readonly Override[]
  readonly onEnd: (override: Override) => void
}

/** What is changed now, with its clocks: what ends next comes first. */
export function OverrideList({ overrides, onEnd }: OverrideListProps) {
  const columns: readonly Column<Override>[] = [
    { title: 'Change', isHeading: true, cell: (override) => <Change override={override} />, sortBy: changeText },
    { title: 'For', cell: (override) => <Subject override={override} />, sortBy: ({ policy = '', rule = '' }) => `${policy} ${rule}` },
    { title: 'Ends in', cell: ({ until }) => <Countdown until={until} />, sortBy: ({ until }) => Date.parse(until) },
    { title: 'Why', cell: ({ reason }) => reason },
    { title: 'Who', cell: (override) => <Maker override={override} />, sortBy: ({ actor }) => actor },
    { title: 'Action', cell: (override) => <EndButton override={override} onEnd={onEnd} /> },
  ]
  return (
    <DataTable
      caption="Overrides"
      columns={columns}
      rows={overrides.toSorted((a, b) => Date.parse(a.until) - Date.parse(b.until))}
      rowKey={({ id }) => id}
      empty="No overrides. Every rule is as the bundle has it."
    />
  )
}

function Change({ override }: { readonly override: Override }) {
  return (
    <>
      <strong>{changeText(override)}</strong>
      {!override.in_force && (
        <p class="note">
          <Badge tone="warn">Not in force</Badge> The active bundle has no such rule, or the change does not fit it.
        </p>
      )}
      {!override.durable && (
        <p class="note">
          <Badge tone="quiet">Not saved</Badge> A restart ends it.
        </p>
      )}
    </>
  )
}

/** Whom it is for. */
export function Subject({ override: { policy, rule, values } }: { readonly override: Override }) {
  if (policy === undefined || rule === undefined) return <span>All policies</span>
  return (
    <>
      <a href={addressOf('policies', { policy })}>{policy}</a> · {rule}
      {values ? <Caller values={values} /> : <p>all callers</p>}
    </>
  )
}

function Maker({ override: { actor, created_at } }: { readonly override: Override }) {
  return (
    <>
      {actor}, <Ago at={created_at} />
    </>
  )
}

function EndButton({ override, onEnd }: { readonly override: Override; readonly onEnd: (override: Override) => void }) {
  return (
    <button type="button" onClick={() => onEnd(override)}>
      End<span class="unseen"> {changeText(override)}</span>…
    </button>
  )
}
