import { useSignal } from '@preact/signals'
import type { NearCallerJson, TopJson } from '../../src/admin/api/caller-types.ts'
import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import { amountText } from '../amounts.ts'
import { formatCount } from '../format.ts'
import { usePoll } from '../live.ts'
import { addressOf } from '../navigation.ts'
import { Caller } from '../parts/caller.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { reservedText, usedOf } from './reserved-words.ts'
import { fullName, limitName } from './rule-names.ts'

const TOP_MS = 5000
const SHOWN_CALLERS = 10

const COLUMNS: readonly Column<NearCallerJson>[] = [
  { title: 'Caller', isHeading: true, cell: ({ values }) => <Caller values={values} /> },
  { title: 'Limit of', isMinor: true, cell: ({ kind }) => limitName(kind) },
  { title: 'Used', isNumber: true, cell: (caller) => amountText(usedOf(caller, caller.level), caller.unit) },
  { title: 'Reserved', isNumber: true, cell: (caller) => reservedText(caller, caller.unit) },
  { title: 'Left', isNumber: true, cell: Left },
  { title: 'Limit', isNumber: true, isMinor: true, cell: ({ limit, unit }) => amountText(limit, unit) },
]

/** Shows the callers with the least left, for a rule that gives each caller a budget. */
export function NearestCallers({ rules }: { readonly rules: readonly SpendingRule[] }) {
  const chosen = useSignal<string | undefined>(undefined)
  if (rules.length === 0) return null
  const rule = rules.find((one) => fullName(one) === chosen.value) ?? rules[0]!
  return (
    <Panel
      title="Callers nearest to their budget"
      aside={
        <>
          <select
            aria-label="Rule"
            value={fullName(rule)}
            onChange={(event) => {
              chosen.value = event.currentTarget.value
            }}
          >
            {rules.map((one) => (
              <option key={fullName(one)}>{fullName(one)}</option>
            ))}
          </select>{' '}
          {formatCount(rules.length, 'rule')} with a budget for each caller
        </>
      }
      isWide
    >
      <Nearest key={fullName(rule)} rule={rule} />
    </Panel>
  )
}

function Nearest({ rule }: { readonly rule: SpendingRule }) {
  const query = new URLSearchParams({ policy: rule.policy, rule: rule.rule, limit: String(SHOWN_CALLERS) })
  const { data, failure } = usePoll<TopJson>(`top?${query}`, TOP_MS)
  if (failure.value?.code === 'top_off') return <p class="empty">EDGE_TOP is off, so callers are not counted: restart with EDGE_TOP=on.</p>
  if (data.value === undefined) return null
  return (
    <>
      <DataTable
        caption={`Callers nearest to their budget of ${fullName(rule)}`}
        columns={COLUMNS}
        rows={data.value.nearest}
        rowKey={({ values, kind }) => JSON.stringify([values, kind])}
        empty="No caller of this rule was seen in the last ten minutes."
      />
      {data.value.nearest.length > 0 && (
        <p class="more">
          <a href={addressOf('callers', { policy: rule.policy, rule: rule.rule })}>More callers of this rule</a>
        </p>
      )}
    </>
  )
}

function Left({ level, remaining, limit, unit }: NearCallerJson) {
  return (
    <>
      <span class={remaining < limit / 10 ? 'bad' : undefined}>{amountText(level < 0 ? level : remaining, unit)}</span>
      <Level remaining={remaining} limit={limit} />
    </>
  )
}
