import type { Clock } from '../clock.ts'
import type { Plan, PlanRule } from '../policy/plan.ts'
import { defaultIdentification, type Identification } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { type ActivePlan, openPlan } from './active-plan.ts'
import type { Allowed, Decision, RateLimit, Refused, Rejected } from './decision.ts'
import { Run } from './run.ts'
import { mostConstrained, worstObjection } from './verdict.ts'

export interface EngineOptions {
  readonly store: CounterStore
  readonly clock: Clock
  readonly identification?: Identification
}

const NO_BUNDLE: Refused = { action: 'refuse', reason: 'no_bundle_loaded' }
const NO_HOST: Refused = { action: 'refuse', reason: 'missing_original_host' }

/** Answers whether a request may go on. Knows nothing of sockets, headers or logs. */
export class Engine {
  readonly #store: CounterStore
  readonly #clock: Clock
  readonly #identification: Identification
  #active: ActivePlan | undefined
  /** Runs at rest. A store that answers at once needs only one. */
  readonly #idle: Run[] = []

  constructor(options: EngineOptions) {
    this.#store = options.store
    this.#clock = options.clock
    this.#identification = options.identification ?? defaultIdentification()
  }

  get plan(): Plan | undefined {
    return this.#active?.plan
  }

  /** From the next decision on, this plan holds. Decisions under way keep theirs. */
  activate(plan: Plan): void {
    this.#active = openPlan(plan, this.#store, this.#clock.nowMs(), this.#active)
  }

  /**
   * Decides and takes. Answers at once where the store does. `explains` adds the descriptor values, which cost and
   * are nobody's business but an operator's.
   */
  decide(view: RequestView, explains = false): Decision | Promise<Decision> {
    const active = this.#active
    if (active === undefined) return NO_BUNDLE
    const run = this.#idle.pop() ?? new Run(this.#identification)
    const wallMs = active.plan.hasDayLimits ? this.#clock.wallMs() : 0
    if (!run.begin(view, active, this.#clock.nowMs(), wallMs, explains)) {
      this.#idle.push(run)
      return NO_HOST
    }
    run.beginGroup()
    const { policies, count } = run.matches
    for (let i = 0; i < count; i++) if (!policies[i]!.isShadow) run.charge(policies[i]!)
    const taken = this.#take(run)
    return typeof taken === 'boolean' ? this.#afterEnforcing(run, taken) : taken.then((fits) => this.#afterEnforcing(run, fits))
  }

  #take(run: Run): boolean | Promise<boolean> {
    return run.charges.length === 0 || this.#store.takeAll(run.charges, run.nowMs, run.wallMs)
  }

  #afterEnforcing(run: Run, taken: boolean): Decision | Promise<Decision> {
    if (!taken) return this.#reject(run)
    run.limit = mostConstrained(run)
    return this.#simulate(run, 0)
  }

  /** Each shadow policy is an all-or-nothing simulation of its own, on counters of its own. */
  #simulate(run: Run, from: number): Decision | Promise<Decision> {
    for (let i = from; i < run.matches.count; i++) {
      const policy = run.matches.policies[i]!
      if (!policy.isShadow) continue
      run.beginGroup()
      run.charge(policy)
      const taken = this.#take(run)
      if (typeof taken !== 'boolean') {
        return taken.then((fits) => {
          if (!fits) run.addWouldReject(worstObjection(run))
          return this.#simulate(run, i + 1)
        })
      }
      if (!taken) run.addWouldReject(worstObjection(run))
    }
    return this.#allow(run)
  }

  #allow(run: Run): Decision {
    const wouldReject = run.wouldRejects[0]
    const rule = wouldReject?.rule ?? run.limit?.rule
    return this.#conclude(run, 'allow', wouldReject?.reason ?? 'all_rules_passed', run.limit, rule, true)
  }

  #reject(run: Run): Decision {
    const { rule, reason, limitText, retryAfterMs, canRetry } = worstObjection(run)
    const limit = { rule, limitText, remaining: 0, resetMs: retryAfterMs }
    return this.#conclude(run, 'reject', reason, limit, rule, canRetry)
  }

  /** Writes the decision down in one object of one shape, and puts the run to rest. */
  #conclude(
    run: Run,
    action: 'allow' | 'reject',
    reason: Allowed['reason'],
    limit: RateLimit | undefined,
    rule: PlanRule | undefined,
    canRetry: boolean,
  ): Decision {
    const decision = {
      action,
      reason,
      limit,
      canRetry,
      policy: rule?.policy,
      rule,
      wouldRejects: run.wouldRejects,
      missingKeys: run.missingKeys,
      matchedPolicies: run.matches.count,
      descriptors: run.explain(rule),
    }
    this.#idle.push(run)
    return decision as Allowed | Rejected
  }
}
