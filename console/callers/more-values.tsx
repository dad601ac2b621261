import { useSignal } from '@preact/signals'
import type { IncompleteRule } from '../../src/admin/api/caller-types.ts'
import { formatCount } from '../format.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Form } from '../parts/form.tsx'
import { Panel } from '../parts/panel.tsx'
import { CallerFields, readCaller } from '../rules/caller-fields.tsx'
import { openCaller } from './asked-caller.ts'
import { RuleName } from './caller-actions.tsx'
import { digestKeys } from './caller-headline.tsx'
import type { AskedCaller } from './read-asked.ts'

/** A form with more fields than this helps nobody. */
const MAX_FIELDS = 8

const COLUMNS: readonly Column<IncompleteRule>[] = [
  { title: 'Rule', isHeading: true, cell: (rule) => <RuleName {...rule} />, sortBy: ({ policy, rule }) => `${policy} ${rule}` },
  { title: 'Also needs', cell: ({ missing }) => <span class="mono">{missing.join(', ')}</span> },
]

interface MoreValuesProps {
  readonly asked: AskedCaller
  readonly rules: readonly IncompleteRule[]
}

/** Lists rules that count the caller together with values that were not given, and asks for these, and for credentials that were given as digests. */
export function MoreValues({ asked, rules }: MoreValuesProps) {
  const problem = useSignal<string | undefined>(undefined)
  if ('value' in asked) return null
  const all = [...new Set([...digestKeys(asked), ...rules.flatMap(({ missing }) => missing)])]
  if (all.length === 0) return null
  const keys = all.slice(0, MAX_FIELDS)
  const find = async (form: FormData): Promise<void> => {
    const given = Object.entries(readCaller(keys, form, {})).filter(([, value]) => value !== '')
    problem.value = given.length === 0 ? 'Type at least one of these values.' : undefined
    if (given.length > 0) openCaller({ values: { ...asked.values, ...Object.fromEntries(given) } })
  }
  return (
    <Panel
      title="More values"
      aside={rules.length === 0 ? undefined : `${formatCount(rules.length, 'rule needs', 'rules need')} them`}
      isWide
    >
      <Form action="Find with these values" onSubmit={find}>
        <div class="columns">
          <CallerFields
            keys={keys}
            values={{}}
            credentialHint="The credential itself: a digest does not find its counter."
            error={problem.value}
          />
        </div>
        {all.length > keys.length && (
          <p class="hint">{formatCount(all.length - keys.length, 'more key')}: type them as KEY=VALUE into the field at the top.</p>
        )}
      </Form>
      {rules.length > 0 && <DataTable caption="Rules that need more values" columns={COLUMNS} rows={rules} rowKey={keyOf} empty="" />}
    </Panel>
  )
}

function keyOf({ policy, rule }: IncompleteRule): string {
  return JSON.stringify([policy, rule])
}
