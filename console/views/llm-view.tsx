import { useActivity } from '../activity.ts'
import { RangeCharts } from '../charts/range-charts.tsx'
import { BudgetTable } from '../llm/budget-table.tsx'
import { NearestCallers } from '../llm/nearest-callers.tsx'
import { SharedBudgets } from '../llm/shared-budgets.tsx'
import { SpendingCharts } from '../llm/spending-charts.tsx'
import { SpendingFigures } from '../llm/spending-figures.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { useUsage } from '../usage.ts'

/** Shows tokens and money: what is spent, and what is left. */
export function LlmView() {
  const [usagePoll, activityPoll] = [useUsage(), useActivity()]
  const [usage, activity] = [usagePoll.data.value, activityPoll.data.value]
  const failure = usagePoll.failure.value ?? activityPoll.failure.value
  const problem = failure && <Notice tone="bad">There are no new figures: {failure.message}</Notice>
  if (usage === undefined || activity === undefined) return problem ?? null
  if (usage.total === 0) {
    return (
      <EmptyState>
        No rule of the active bundle counts tokens or money. Rules with the algorithm <code>token_bucket_llm</code> or{' '}
        <code>cost_budget</code> appear here.
      </EmptyState>
    )
  }
  const { rules } = usage
  const isCounted = rules.some(({ used }) => used !== null)
  return (
    <>
      {problem}
      {isCounted ? (
        <>
          <SpendingFigures rules={rules} samples={activity.samples} />
          <RangeCharts live={activity}>{(timeline) => <SpendingCharts rules={rules} timeline={timeline} />}</RangeCharts>
        </>
      ) : (
        <Notice tone="accent">
          This is a decision service: it sees no responses, so what they used is not counted here. What is left of each budget is.
        </Notice>
      )}
      <SharedBudgets rules={rules.filter(({ counters }) => counters !== null)} />
      <NearestCallers rules={rules.filter(({ limit_keys }) => limit_keys.length > 0)} />
      <BudgetTable usage={usage} />
    </>
  )
}
