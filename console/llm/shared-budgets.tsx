import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import type { CounterJson } from '../../src/admin/api/types.ts'
import { amountText, refillText } from '../callers/amounts.ts'
import { formatShare } from '../format.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { countedText, fullName } from './spent.ts'

interface Budget {
  readonly name: string
  readonly counter: CounterJson
}

const COLUMNS: readonly Column<Budget>[] = [
  { title: 'Rule', isHeading: true, cell: ({ name }) => name },
  { title: 'Counts', isMinor: true, cell: ({ counter }) => countedText(counter.kind) },
  { title: 'Spent', isNumber: true, cell: ({ counter }) => amountText(counter.limit - counter.level, counter.kind) },
  { title: 'Left', isNumber: true, cell: Left },
  { title: 'Limit', isNumber: true, isMinor: true, cell: ({ counter }) => amountText(counter.limit, counter.kind) },
  { title: 'Refill', isMinor: true, cell: ({ counter }) => refillText(counter) },
]

/** Shows what is left of each budget that all callers share. */
export function SharedBudgets({ rules }: { readonly rules: readonly SpendingRule[] }) {
  const budgets = rules.flatMap((rule) => rule.counters!.map((counter) => ({ name: fullName(rule), counter })))
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

function Left({ counter: { level, limit, kind } }: Budget) {
  const share = Math.max(0, level) / limit
  return (
    <>
      <span class={share < 0.1 ? 'bad' : undefined}>
        {amountText(level, kind)} <small>({formatShare(share)})</small>
      </span>
      <Level remaining={level} limit={limit} />
    </>
  )
}
