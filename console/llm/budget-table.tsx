import type { SpendingRule, UsageJson } from '../../src/admin/api/instance-types.ts'
import { spentText } from '../amounts.ts'
import { formatCount, formatNumber } from '../format.ts'
import { addressOf } from '../navigation.ts'
import { Badge } from '../parts/badge.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Panel } from '../parts/panel.tsx'
import { Moment } from '../parts/time.tsx'
import { ruleWords } from '../policy-words.ts'
import { growingText, inFlightText } from './reserved-words.ts'
import { fullName } from './rule-names.ts'

const COLUMNS: readonly Column<SpendingRule>[] = [
  {
    title: 'Rule',
    isHeading: true,
    cell: (rule) => <a href={addressOf('policies', { policy: rule.policy })}>{fullName(rule)}</a>,
    sortBy: fullName,
  },
  { title: 'Limit', isMinor: true, cell: ruleWords },
  { title: 'Mode', isMinor: true, cell: ({ mode }) => <Badge tone={mode === 'shadow' ? 'accent' : 'quiet'}>{mode}</Badge> },
  { title: 'Reserved in flight', isNumber: true, cell: inFlightText, sortBy: ({ in_flight }) => in_flight?.reserved ?? 0 },
  { title: 'Of it growing', isNumber: true, isMinor: true, cell: growingText, sortBy: ({ in_flight }) => in_flight?.growing.reserved ?? 0 },
  { title: 'Last minute', isNumber: true, isMinor: true, ...spent('last_minute') },
  { title: 'Last 15 minutes', isNumber: true, ...spent('last_15_minutes') },
  { title: 'Since the start', isNumber: true, isMinor: true, ...spent('since_start') },
]

/** Shows what each rule has counted, and what requests in flight have reserved. */
export function BudgetTable({ usage: { rules, total, since } }: { readonly usage: UsageJson }) {
  const isPart = total > rules.length
  return (
    <Panel
      title="Spent by rule"
      aside={
        <>
          {isPart ? `${rules.length} of ${formatNumber(total)} rules, those that spent most` : formatCount(total, 'rule')} · counting since{' '}
          <Moment at={since} />
        </>
      }
      isWide
    >
      <DataTable caption="Tokens and money spent by rule" columns={COLUMNS} rows={rules} rowKey={fullName} empty="" />
    </Panel>
  )
}

function spent(span: keyof NonNullable<SpendingRule['used']>): Pick<Column<SpendingRule>, 'cell' | 'sortBy'> {
  return {
    cell: ({ used, unit }) => (used === null ? '–' : spentText(used[span], unit)),
    sortBy: ({ used }) => used?.[span] ?? 0,
  }
}
