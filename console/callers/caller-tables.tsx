import type { CallersJson, NearCallerJson, RejectedCaller } from '../../src/admin/api/caller-types.ts'
import type { OverrideJson, SelectorJson } from '../../src/admin/api/types.ts'
import { addressOf } from '../navigation.ts'
import { effectTexts } from '../overrides/change-words.ts'
import { Origin, Subject } from '../overrides/override-facts.tsx'
import { Badge } from '../parts/badge.tsx'
import { Copyable } from '../parts/copyable.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Panel } from '../parts/panel.tsx'
import { Until } from '../parts/time.tsx'
import { CallerActions } from './caller-actions.tsx'
import { digestKeys } from './caller-headline.tsx'
import { isSameRule } from './known-rule.ts'
import { type AskedCaller, typedCredential } from './read-asked.ts'
import { keyOf, nearColumns, rejectColumns, Since } from './top-tables.tsx'

interface CallerProps {
  readonly asked: AskedCaller
  readonly found: CallersJson
}

/** Shows which rules rejected the caller within the hour, how often, and when for the first and the last time. */
export function CallerRejects({ asked, found }: CallerProps) {
  if (found.top === null) return null
  const columns: readonly Column<RejectedCaller>[] = [...rejectColumns(), actionColumn(asked, found)]
  return (
    <Panel title="Rejected in the last hour" aside={<Since top={found.top} />} isWide>
      <DataTable
        caption="Rejects of this caller"
        columns={columns}
        rows={found.top.rejected}
        rowKey={keyOf}
        empty="It was not rejected in the last hour."
        steadySince={0}
      />
    </Panel>
  )
}

/** Shows limits that the caller is near to, of rules that need more values than were given. */
export function CallerNear({ asked, found }: CallerProps) {
  const rows = (found.top?.nearest ?? []).filter((row) => !found.rules.some((rule) => isSameRule(rule, row)))
  if (rows.length === 0) return null
  const columns: readonly Column<NearCallerJson>[] = [...nearColumns(), actionColumn(asked, found)]
  return (
    <Panel title="Near a limit of other rules" aside="now, of the last ten minutes" isWide>
      <DataTable caption="Other limits that this caller is near to" columns={columns} rows={rows} rowKey={keyOf} empty="" steadySince={0} />
    </Panel>
  )
}

const OVERRIDE_COLUMNS: readonly Column<OverrideJson>[] = [
  { title: 'What it does', isHeading: true, cell: (override) => <Effect override={override} /> },
  { title: 'Who it is for', cell: (override) => <Subject override={override} isLinked /> },
  { title: 'Why, and by whom', cell: (override) => <Origin override={override} /> },
  { title: 'Ends', cell: ({ until }) => <Until until={until} /> },
  { title: 'Id', cell: ({ id }) => <Copyable name="id" text={id} /> },
]

/** Shows overrides for the caller, for all callers of its rules, and one that stops all enforcement. */
export function CallerOverrides({ overrides }: { readonly overrides: readonly OverrideJson[] }) {
  return (
    <Panel title="Overrides" aside={<a href={addressOf('overrides')}>the whole list</a>} isWide>
      <DataTable
        caption="Overrides of this caller"
        columns={OVERRIDE_COLUMNS}
        rows={overrides}
        rowKey={({ id }) => id}
        empty="No override concerns this caller."
        isStacked
      />
    </Panel>
  )
}

function Effect({ override }: { readonly override: OverrideJson }) {
  return (
    <>
      {effectTexts(override).map((text) => (
        <strong key={text} class="effect">
          {text}
        </strong>
      ))}
      {!override.in_force && <Badge tone="warn">Not in force</Badge>}
    </>
  )
}

function actionColumn<Row extends RejectedCaller | NearCallerJson>(asked: AskedCaller, found: CallersJson): Column<Row> {
  const isDigest = digestKeys(asked).length > 0
  return {
    title: 'Actions',
    cell: (row) => {
      const selector = selectorOf(row, found)
      return (
        <CallerActions
          caller={row}
          {...(selector !== undefined && { selector })}
          credentialOf={(key) => (isDigest ? undefined : typedCredential(asked, key))}
        />
      )
    },
  }
}

function selectorOf(row: RejectedCaller | NearCallerJson, { rules, incomplete_rules: incomplete }: CallersJson): SelectorJson | undefined {
  return [...rules, ...incomplete].find((rule) => isSameRule(rule, row))?.selector
}
