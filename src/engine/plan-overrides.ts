import type { TimedOverride } from '../overrides/override.ts'
import type { OverridesChange } from '../overrides/overrides-change.ts'
import { type FittedOverride, fitOverride } from '../policy/override-fit.ts'
import type { Plan } from '../policy/plan.ts'
import { statedLimits } from '../policy/stated-limit.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { CallerDigest } from './caller-digest.ts'
import { OverrideIndex } from './override-index.ts'
import type { Variant } from './variant.ts'

/** What overrides make of one plan's rules. Those whose rule the plan does not have, or that do not fit it, are not in force. */
export class PlanOverrides {
  /** Undefined where there are none: then a decision checks no more than that. */
  index: OverrideIndex | undefined
  readonly #all: OverrideIndex
  readonly #plan: Plan
  readonly #store: CounterStore
  /** By the override's id. */
  readonly #fitted = new Map<string, Fitted>()

  constructor(plan: Plan, store: CounterStore, callerDigest: CallerDigest) {
    this.#plan = plan
    this.#store = store
    this.#all = new OverrideIndex(callerDigest)
  }

  change({ put, gone }: OverridesChange): void {
    for (const id of gone) this.#remove(id)
    for (const timed of put) this.#put(timed)
    this.index = this.#all.isEmpty ? undefined : this.#all
  }

  #put(timed: TimedOverride): void {
    const { id, subject } = timed.override
    if (subject === 'all_policies') return this.#all.putShadow(timed)
    const fitted = this.#fit(timed)
    this.#remove(id)
    this.#fitted.set(id, fitted)
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
    if (known?.fromMs === fromMs) return { ...known, variant: known.variant && { ...known.variant, toMs } }
    const fit = fitOverride(this.#plan, override)
    return typeof fit === 'string'
      ? { fromMs, variant: undefined, values: [] }
      : { fromMs, variant: this.#open(timed, fit), values: fit.values }
  }

  #open({ override, fromMs, toMs }: TimedOverride, { rule, variant }: FittedOverride): Variant {
    const counters = variant.counters.map(({ identity, limit, isLeasable, isSettled }, c) => {
      const source = { momentMs: override.sinceMs, untilMs: override.untilMs, ruleSize: rule.counters[c]!.size }
      return this.#store.open({ identity, limit, isLeasable, isSettled, sinceMs: fromMs, override: source })
    })
    return { override, fromMs, toMs, rule: variant, counters, stated: statedLimits(variant.source) }
  }
}

interface Fitted {
  readonly fromMs: number
  /** Undefined where it does not fit. */
  readonly variant: Variant | undefined
  readonly values: readonly string[]
}
