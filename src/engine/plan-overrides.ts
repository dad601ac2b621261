import type { TimedOverride } from '../overrides/override.ts'
import type { OverridesChange } from '../overrides/overrides-change.ts'
import { type FittedOverride, fitOverride } from '../policy/override-fit.ts'
import type { Plan } from '../policy/plan.ts'
import { statedLimits } from '../policy/stated-limit.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { NameOf } from './name-of.ts'
import { OverrideIndex } from './override-index.ts'
import type { Variant } from './variant.ts'

/** What overrides make of one plan's rules. Those whose rule the plan does not have, or that do not fit it, are not in force. */
export class PlanOverrides {
  /** Undefined where there are none: then a decision checks no more than that. */
  index: OverrideIndex | undefined
  readonly #all: OverrideIndex
  readonly #plan: PlannedRules
  readonly #store: CounterStore
  /** By the override's id. */
  readonly #fitted = new Map<string, Fitted>()

  constructor(plan: PlannedRules, store: CounterStore, nameOf: NameOf) {
    this.#plan = plan
    this.#store = store
    this.#all = new OverrideIndex(nameOf)
  }

  /** All that were put and are not gone, whether or not they fit the plan. */
  list(): TimedOverride[] {
    return Array.from(this.#fitted.values(), ({ timed }) => timed)
  }

  /** Whether it was put, and neither gone nor put anew with other times since. */
  has(timed: TimedOverride): boolean {
    return this.#fitted.get(timed.override.id)?.timed === timed
  }

  change({ put, gone }: OverridesChange): void {
    for (const id of gone) this.#remove(id)
    for (const timed of put) this.#put(timed)
    this.index = this.#all.isEmpty ? undefined : this.#all
  }

  #put(timed: TimedOverride): void {
    const { id, subject } = timed.override
    const fitted = subject === 'all_policies' ? { timed, variant: undefined, values: [] } : this.#fit(timed)
    this.#remove(id)
    this.#fitted.set(id, fitted)
    if (subject === 'all_policies') this.#all.putShadow(timed)
    if (fitted.variant !== undefined) this.#all.add(fitted.variant, fitted.values)
  }

  #remove(id: string): void {
    this.#all.removeShadow(id)
    const known = this.#fitted.get(id)
    if (known?.variant !== undefined) this.#all.remove(known.variant, known.values)
    this.#fitted.delete(id)
  }

  /** One whose end alone has changed is not fitted again. */
  #fit(timed: TimedOverride): Fitted {
    const { override, fromMs, toMs } = timed
    const known = this.#fitted.get(override.id)
    if (known?.timed.fromMs === fromMs) return { ...known, timed, variant: known.variant && { ...known.variant, toMs } }
    const fit = fitOverride(this.#plan, override)
    return typeof fit === 'string'
      ? { timed, variant: undefined, values: [] }
      : { timed, variant: this.#open(timed, fit), values: fit.values }
  }

  #open({ override, fromMs, toMs }: TimedOverride, { rule, variant }: FittedOverride): Variant {
    const counters = variant.counters.map(({ identity, limit, isLeasable, isSettled }, c) => {
      const source = { momentMs: override.sinceMs, untilMs: override.untilMs, ruleSize: rule.counters[c]!.size }
      return this.#store.open({ identity, limit, isLeasable, isSettled, sinceMs: fromMs, override: source })
    })
    return { override, fromMs, toMs, rule: variant, counters, stated: statedLimits(variant.source) }
  }
}

type PlannedRules = Pick<Plan, 'policiesById'>

interface Fitted {
  readonly timed: TimedOverride
  /** Undefined where it does not fit. */
  readonly variant: Variant | undefined
  readonly values: readonly string[]
}
