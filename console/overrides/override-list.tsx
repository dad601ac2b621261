import type { OverrideJson } from '../../src/admin/api/types.ts'
import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Ago, Countdown } from '../parts/time.tsx'
import { printable } from '../printable.ts'
import { changeText } from './override.ts'

interface OverrideListProps {
  readonly overrides: readonly OverrideJson[]
  readonly onEnd: (override: OverrideJson) => void
}

/** Lists the current overrides with their remaining time; those that end next come first. */
export function OverrideList({ overrides, onEnd }: OverrideListProps) {
  const columns: readonly Column<OverrideJson>[] = [
    { title: 'Override', isHeading: true, cell: (override) => <Summary override={override} />, sortBy: subjectText },
    { title: 'Ends in', cell: ({ until }) => <Countdown until={until} />, sortBy: ({ until }) => Date.parse(until) },
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

/** Shows what is changed, for whom, and why: side by side, or stacked on a phone. */
function Summary({ override }: { readonly override: OverrideJson }) {
  const { actor, reason, created_at, in_force: isInForce, durable } = override
  return (
    <div class="override">
      <div>
        <strong>{changeText(override)}</strong>
        {!isInForce && (
          <p class="note">
            <Badge tone="warn">Not in force</Badge> The active bundle has no such rule, or the change does not fit it.
          </p>
        )}
        {!durable && (
          <p class="note">
            <Badge tone="quiet">Not saved</Badge>
          </p>
        )}
      </div>
      <div>
        <Subject override={override} />
      </div>
      <div>
        {printable(reason)}
        <p class="note">
          {actor}, <Ago at={created_at} />
        </p>
      </div>
    </div>
  )
}

/** Shows the callers to whom the override applies. */
export function Subject({ override: { policy, rule, values } }: { readonly override: OverrideJson }) {
  if (policy === undefined || rule === undefined) return <span>All policies</span>
  return (
    <>
      <a href={addressOf('policies', { policy })}>{policy}</a> · {rule}
      {values ? <Caller values={values} /> : <p>all callers</p>}
    </>
  )
}

function EndButton({ override, onEnd }: { readonly override: OverrideJson; readonly onEnd: (override: OverrideJson) => void }) {
  return (
    <button type="button" onClick={() => onEnd(override)}>
      End<span class="unseen"> {changeText(override)}</span>…
    </button>
  )
}

function subjectText({ policy = '', rule = '' }: OverrideJson): string {
  return `${policy} ${rule}`
}
