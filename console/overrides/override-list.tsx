import type { OverrideJson } from '../../src/admin/api/types.ts'
import { callerName } from '../caller-values.ts'
import { Badge } from '../parts/badge.tsx'
import { ChangeButton } from '../parts/change-button.tsx'
import { Copyable } from '../parts/copyable.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Until } from '../parts/time.tsx'
import { changeText, effectTexts, limitsText } from './change-words.ts'
import { Origin, Subject } from './override-facts.tsx'

/** What an operator can do with an override. */
export type OverrideAction = 'extend' | 'edit' | 'end'

interface OverrideListProps {
  readonly overrides: readonly OverrideJson[]
  /** The id in the address, if another view links to one. */
  readonly named: string | null
  readonly onAct: (action: OverrideAction, override: OverrideJson) => void
}

const ACTIONS: readonly (readonly [OverrideAction, string])[] = [
  ['extend', 'Extend'],
  ['edit', 'Edit'],
  ['end', 'End'],
]

/** Lists the current overrides with their remaining time; those that end next come first. */
export function OverrideList({ overrides, named, onAct }: OverrideListProps) {
  const columns: readonly Column<OverrideJson>[] = [
    { title: 'What it does', isHeading: true, cell: (override) => <Effect override={override} />, sortBy: changeText },
    { title: 'Who it is for', cell: (override) => <Subject override={override} isLinked />, sortBy: subjectText },
    { title: 'Why, and by whom', cell: (override) => <Origin override={override} />, sortBy: ({ actor }) => actor },
    { title: 'Ends', cell: ({ until }) => <Until until={until} />, sortBy: ({ until }) => Date.parse(until) },
    { title: 'Id', cell: ({ id }) => <Copyable name="id" text={id} /> },
    { title: 'Actions', cell: (override) => <Actions override={override} onAct={onAct} /> },
  ]
  return (
    <DataTable
      caption="Overrides"
      columns={columns}
      rows={overrides.toSorted((a, b) => Date.parse(a.until) - Date.parse(b.until))}
      rowKey={({ id }) => id}
      empty="No overrides. Every rule is as the bundle has it."
      isStacked
      isNamed={({ id }) => id === named}
    />
  )
}

/** Shows what becomes of the limits, and what the operator asked for. */
function Effect({ override }: { readonly override: OverrideJson }) {
  const { in_force: isInForce, durable, before, after } = override
  return (
    <>
      {effectTexts(override).map((text) => (
        <strong key={text} class="effect">
          {text}
        </strong>
      ))}
      {before !== null && after !== null && (
        <p class="note">{after.limits.length > 0 ? changeText(override) : `instead of ${limitsText(before)}`}</p>
      )}
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
    </>
  )
}

function Actions({ override, onAct }: { readonly override: OverrideJson; readonly onAct: OverrideListProps['onAct'] }) {
  return (
    <div class="actions">
      {ACTIONS.map(([action, text]) => (
        <ChangeButton key={action} onClick={() => onAct(action, override)}>
          {text}
          <span class="unseen"> {nameOf(override)}</span>…
        </ChangeButton>
      ))}
    </div>
  )
}

/** Names an override among others, for those who cannot see its row. */
function nameOf(override: OverrideJson): string {
  const { policy, values } = override
  return policy === undefined ? changeText(override) : `${changeText(override)} for ${values ? callerName(values) : 'all callers'}`
}

function subjectText({ policy = '', rule = '' }: OverrideJson): string {
  return `${policy} ${rule}`
}
