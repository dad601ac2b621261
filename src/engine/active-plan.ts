import type { Plan, PlanCounter } from '../policy/plan.ts'
import type { Counter } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'

/** A plan with its counters open in a store. */
export interface ActivePlan {
  readonly plan: Plan
  /** By the plan's counter index. */
  readonly counters: readonly Counter[]
  /** By identity: the counter of a rule of an earlier plan, when the rule is still the same one. */
  readonly byIdentity: ReadonlyMap<string, Counter>
}

/** `sincesMs`: since when each counter's limit holds, by its index. */
export function openPlan(plan: Plan, store: CounterStore, sincesMs: Float64Array): ActivePlan {
  const byIdentity = new Map<string, Counter>()
  const counters = plan.counters.map((counter) => {
    const opened = store.open({ identity: counter.identity, limit: counter.limit, sinceMs: sincesMs[counter.index]! })
    byIdentity.set(identityName(counter), opened)
    return opened
  })
  return { plan, counters, byIdentity }
}

export function identityName(counter: PlanCounter): string {
  return JSON.stringify(counter.identity)
}
