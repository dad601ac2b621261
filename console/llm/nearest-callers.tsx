import { useSignal } from '@preact/signals'
import type { NearCallerJson, TopJson } from '../../src/admin/api/caller-types.ts'
import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import { amountText } from '../amounts.ts'
import { CallerActions, CallerLink, RuleName } from '../callers/caller-actions.tsx'
import { usePoll } from '../live.ts'
import { addressOf } from '../navigation.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { reservedText, usedOf } from './reserved-words.ts'
import { fullName, limitName } from './rule-names.ts'

const TOP_MS = 5000
const SHOWN_CALLERS = 20
const ALL = 'all budgets'

const COLUMNS: readonly Column<NearCallerJson>[] = [
  { title: 'Caller', isHeading: true, cell: Who },
  { title: 'Left', isNumber: true, cell: Left },
  { title: 'Used', isNumber: true, isMinor: true, cell: (caller) => amountText(usedOf(caller, caller.remaining), caller.unit) },
  { title: 'Reserved', isNumber: true, isMinor: true, cell: (caller) => reservedText(caller, caller.unit) },
  { title: 'Limit', isNumber: true, isMinor: true, cell: ({ limit, unit }) => amountText(limit, unit) },
  { title: 'Actions', cell: ({ policy, rule, values }) => <CallerActions caller={{ policy, rule, values }} /> },
]

/** Shows the callers with the least left of any budget that each caller has, worst first, or of one rule's. */
export function NearestCallers({ rules }: { readonly rules: readonly SpendingRule[] }) {
  const chosen = useSignal<string>(ALL)
  if (rules.length === 0) return null
  const rule = rules.find((one) => fullName(one) === chosen.value)
  return (
    <Panel
      title="Callers nearest to their budget"
      aside={
        <>
          worst first, of the last ten minutes{' '}
          <select
            aria-label="Rule"
            value={rule === undefined ? ALL : fullName(rule)}
            onChange={(event) => {
              chosen.value = event.currentTarget.value
            }}
          >
            <option>{ALL}</option>
            {rules.map((one) => (
              <option key={fullName(one)}>{fullName(one)}</option>
            ))}
          </select>
        </>
      }
      isWide
    >
      <Nearest key={rule === undefined ? ALL : fullName(rule)} rule={rule} />
    </Panel>
  )
}

function Nearest({ rule }: { readonly rule: SpendingRule | undefined }) {
  const named = rule === undefined ? {} : { policy: rule.policy, rule: rule.rule }
  const query = new URLSearchParams({ ...named, budgets: 'true', limit: String(SHOWN_CALLERS) })
  const { data, failure } = usePoll<TopJson>(`top?${query}`, TOP_MS)
  if (failure.value?.code === 'top_off') return <p class="empty">EDGE_TOP is off, so callers are not counted: restart with EDGE_TOP=on.</p>
  if (data.value === undefined) return null
  // Budgets that all callers share have a table of their own.
  const callers = data.value.nearest.filter(({ values }) => Object.keys(values).length > 0)
  return (
    <>
      <DataTable
        caption="Callers nearest to their budget"
        columns={COLUMNS}
        rows={callers}
        rowKey={({ policy, rule: name, values, kind }) => JSON.stringify([policy, name, values, kind])}
        empty="No caller with a budget was seen in the last ten minutes."
      />
      {callers.length > 0 && (
        <p class="more">
          <a href={addressOf('callers', named)}>More callers</a>
        </p>
      )}
    </>
  )
}

function Who({ policy, rule, mode, kind, values }: NearCallerJson) {
  return (
    <>
      <CallerLink values={values} />
      <RuleName policy={policy} rule={rule} mode={mode} />
      <span class="quiet"> · {limitName(kind)}</span>
    </>
  )
}

function Left({ remaining, limit, unit, left_percent: percent }: NearCallerJson) {
  return (
    <>
      <span class={percent < 10 ? 'bad' : undefined}>{amountText(remaining, unit)}</span>, <span class="quiet">{percent} %</span>
      <Level remaining={remaining} limit={limit} />
    </>
  )
}
