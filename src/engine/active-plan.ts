import type { Plan, PlanCounter } from '../policy/plan.ts'
import type { Counter } from '../store/charges.ts'
import type { CounterSpec, CounterStore } from '../store/counter-store.ts'

/** A plan with its counters open in a store. */
export interface ActivePlan {
  readonly plan: Plan
  /** By the plan's counter index. */
  readonly counters: readonly Counter[]
  readonly specs: ReadonlyMap<string, CounterSpec>
}

/** A counter that an earlier plan had with the same limit keeps the moment since when that limit holds. */
export function openPlan(plan: Plan, store: CounterStore, nowMs: number, previous: ActivePlan | undefined): ActivePlan {
  const specs = new Map<string, CounterSpec>()
  const counters = plan.counters.map((counter) => {
    const name = JSON.stringify(counter.identity)
    const before = previous?.specs.get(name)
    const spec = before !== undefined && isSameLimit(before, counter) ? before : { ...counter, sinceMs: nowMs }
    specs.set(name, spec)
    return store.open(spec)
  })
  return { plan, counters, specs }
}

function isSameLimit(spec: CounterSpec, counter: PlanCounter): boolean {
  const [a, b] = [spec.limit, counter.limit]
  if (a.kind === 'bucket' && b.kind === 'bucket') return a.tokensPerMs === b.tokensPerMs && a.burst === b.burst
  return a.kind === 'day' && b.kind === 'day' && a.tokensPerDay === b.tokensPerDay
}
