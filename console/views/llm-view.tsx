import { useActivity } from '../activity.ts'
import { BudgetTable } from '../llm/budget-table.tsx'
import { NearestCallers } from '../llm/nearest-callers.tsx'
import { SharedBudgets } from '../llm/shared-budgets.tsx'
import { SpendingCharts } from '../llm/spending-charts.tsx'
import { SpendingFigures } from '../llm/spending-figures.tsx'
import { EmptyState } from '../parts/empty-state.tsx'
import { Notice } from '../parts/notice.tsx'
import { timelineOf } from '../timeline.ts'
import { useUsage } from '../usage.ts'

/** Tokens and money: what is spent, and what is left. */
export function LlmView() {
  const usage = useUsage().data.value
  const activity = useActivity().data.value
  if (usage === undefined || activity === undefined) return null
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
  const timeline = timelineOf(activity.samples, activity.interval_s)
  return (
    <>
      {isCounted ? (
        <>
          <SpendingFigures rules={rules} samples={activity.samples} />
          <SpendingCharts rules={rules} timeline={timeline} />
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
