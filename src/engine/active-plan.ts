import { identityName } from '../policy/compile.ts'
import type { Plan } from '../policy/plan.ts'
import type { Counter } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { CallerDigest } from './caller-digest.ts'
import { PlanOverrides } from './plan-overrides.ts'

/** A plan with its counters open in a store. */
export interface ActivePlan {
  readonly plan: Plan
  /** By the plan's counter index. */
  readonly counters: readonly Counter[]
  /** Finds the counter of a rule of an earlier plan, if the rule still exists. */
  readonly byIdentity: ReadonlyMap<string, Counter>
  readonly overrides: PlanOverrides
}

/** In small steps. `sincesMs`: by counter index, since when its limit holds. */
export function* openPlan(
  plan: Plan,
  store: CounterStore,
  sincesMs: Float64Array,
  callerDigest: CallerDigest,
): Generator<void, ActivePlan> {
  const byIdentity = new Map<string, Counter>()
  const counters: Counter[] = []
  for (const counter of plan.counters) {
    const { identity, limit, isLeasable, isSettled } = counter
    const opened = store.open({ identity, limit, isLeasable, isSettled, sinceMs: sincesMs[counter.index]! })
    counters.push(opened)
    byIdentity.set(identityName(counter), opened)
    yield
  }
  return { plan, counters, byIdentity, overrides: new PlanOverrides(plan, store, callerDigest) }
}
