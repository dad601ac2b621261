import type { Plan, PlanCounter } from '../policy/plan.ts'
import type { Counter } from '../store/charges.ts'
import type { CounterSpec, CounterStore } from '../store/counter-store.ts'

/** A plan with its counters open in a store. */
export interface ActivePlan {
  readonly plan: Plan
  /** By the plan's counter index. */
  readonly counters: readonly Counter[]
  readonly specs: ReadonlyMap<string, CounterSpec>
  /** By identity: the counter of a rule of an earlier plan, when the rule is still the same one. */
  readonly byIdentity: ReadonlyMap<string, Counter>
}

/** A counter that an earlier plan had with the same limit keeps the moment since when that limit holds. */
export function openPlan(plan: Plan, store: CounterStore, nowMs: number, previous: ActivePlan | undefined): ActivePlan {
  const specs = new Map<string, CounterSpec>()
  const byIdentity = new Map<string, Counter>()
  const counters = plan.counters.map((counter) => {
    const name = identityName(counter)
    const before = previous?.specs.get(name)
    const spec = before !== undefined && isSameLimit(before, counter) ? before : { ...counter, sinceMs: nowMs }
    specs.set(name, spec)
    const opened = store.open(spec)
    byIdentity.set(name, opened)
    return opened
  })
  return { plan, counters, specs, byIdentity }
}

export function identityName(counter: PlanCounter): string {
  return JSON.stringify(counter.identity)
}

function isSameLimit(spec: CounterSpec, counter: PlanCounter): boolean {
  const [a, b] = [spec.limit, counter.limit]
  if (a.kind === 'bucket' && b.kind === 'bucket') return a.tokensPerMs === b.tokensPerMs && a.burst === b.burst
  return a.kind === 'day' && b.kind === 'day' && a.tokensPerDay === b.tokensPerDay
}
