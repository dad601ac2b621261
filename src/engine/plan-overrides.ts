import type { TimedOverride } from '../overrides/override.ts'
import { type FittedOverride, fitOverride } from '../policy/override-fit.ts'
import type { Plan } from '../policy/plan.ts'
import { statedLimits } from '../policy/stated-limit.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { NameOf } from './name-of.ts'
import { OverrideIndex } from './override-index.ts'
import type { Variant } from './variant.ts'

/** What overrides make of one plan's rules. */
export class PlanOverrides {
  /** Undefined where there are none: then a decision costs nothing more. */
  index: OverrideIndex | undefined
  readonly #plan: Plan
  readonly #store: CounterStore
  readonly #nameOf: NameOf
  /** By the override's id. Kept, so that a change of one of many does not fit all of them again. */
  #fitted = new Map<string, Fitted>()

  constructor(plan: Plan, store: CounterStore, nameOf: NameOf) {
    this.#plan = plan
    this.#store = store
    this.#nameOf = nameOf
  }

  /** Fits them to the plan ahead of `set`, in small steps. */
  *prepare(overrides: readonly TimedOverride[]): Generator<void> {
    for (const timed of overrides) {
      this.#fitted.set(timed.override.id, this.#fit(timed))
      yield
    }
  }

  /** These, and no others. Those whose rule the plan does not have, or that do not fit it, are not in force. */
  set(overrides: readonly TimedOverride[]): void {
    const index = new OverrideIndex(this.#nameOf)
    const fitted = new Map<string, Fitted>()
    for (const timed of overrides) {
      if (timed.override.subject === 'all_policies') {
        index.addShadow(timed)
        continue
      }
      const fit = this.#fit(timed)
      fitted.set(timed.override.id, fit)
      if (fit.variant !== undefined) index.add(fit.variant, fit.values)
    }
    this.#fitted = fitted
    this.index = index.isEmpty ? undefined : index
  }

  #fit(timed: TimedOverride): Fitted {
    const { override, fromMs, toMs } = timed
    const known = this.#fitted.get(override.id)
    if (known?.fromMs !== fromMs) return this.#fitAnew(timed)
    if (known.variant === undefined || known.variant.toMs === toMs) return known
    return { ...known, variant: { ...known.variant, toMs } }
  }

  #fitAnew(timed: TimedOverride): Fitted {
    const fit = fitOverride(this.#plan, timed.override)
    const { fromMs } = timed
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
