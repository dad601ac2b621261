import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import type { CounterJson } from '../../src/admin/api/types.ts'
import { amountText, refillText } from '../amounts.ts'
import { CallerActions } from '../callers/caller-actions.tsx'
import { formatShare } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { reservedText, usedOf } from './reserved-words.ts'
import { fullName, limitName } from './rule-names.ts'

interface Budget {
  readonly name: string
  readonly policy: string
  readonly rule: string
  readonly unit: SpendingRule['unit']
  readonly counter: CounterJson
}

const COLUMNS: readonly Column<Budget>[] = [
  { title: 'Rule', isHeading: true, cell: ({ name, policy }) => <a href={addressOf('policies', { policy })}>{name}</a> },
  { title: 'Limit of', isMinor: true, cell: ({ counter }) => limitName(counter.kind) },
  { title: 'Used', isNumber: true, isMinor: true, cell: ({ counter, unit }) => amountText(usedOf(counter, counter.level), unit) },
  { title: 'Reserved', isNumber: true, isMinor: true, cell: ({ counter, unit }) => reservedText(counter, unit) },
  { title: 'Left', isNumber: true, cell: Left },
  { title: 'Limit', isNumber: true, isMinor: true, cell: ({ counter, unit }) => amountText(counter.limit, unit) },
  { title: 'Refill', isMinor: true, cell: ({ counter }) => refillText(counter) },
  { title: 'Actions', cell: ({ policy, rule }) => <CallerActions caller={{ policy, rule, values: {} }} /> },
]

/** Shows what is used, reserved by requests in flight and left of each budget that all callers share. */
export function SharedBudgets({ rules }: { readonly rules: readonly SpendingRule[] }) {
  const budgets = rules.flatMap((rule) =>
    rule.counters!.map((counter) => ({ name: fullName(rule), policy: rule.policy, rule: rule.rule, unit: rule.unit, counter })),
  )
  if (budgets.length === 0) return null
  return (
    <Panel title="Shared budgets" aside="one for all callers together" isWide>
      <DataTable
        caption="Budgets that all callers share"
        columns={COLUMNS}
        rows={budgets}
        rowKey={({ name, counter }) => `${name} ${counter.kind}`}
        empty=""
      />
    </Panel>
  )
}

function Left({ counter: { level, limit }, unit }: Budget) {
  const share = Math.max(0, level) / limit
  return (
    <>
      <span class={share < 0.1 ? 'bad' : undefined}>
        {amountText(level, unit)} <small>({formatShare(share)})</small>
      </span>
      <Level remaining={level} limit={limit} />
    </>
  )
}
