import { isSameLimit } from '../limiter/algorithms/algorithms.ts'
import type { Limit } from '../limiter/limit.ts'
import { identityName, type NamedLimit } from '../policy/compile.ts'
import type { Plan } from '../policy/plan.ts'
import type { Callers } from '../policy/schema/callers.ts'
import type { CallerReader } from '../request/caller.ts'
import type { Counter } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'
import type { CallerDigest } from './decide-options.ts'
import { PlanOverrides } from './overrides/override-index.ts'

/** A plan with its counters open in a store. */
export interface ActivePlan {
  readonly plan: Plan
  /** Indexed by the plan's counter index. */
  readonly counters: readonly Counter[]
  /** Finds the counter of a rule of an earlier plan, if the rule still exists. */
  readonly byIdentity: ReadonlyMap<string, Counter>
  readonly overrides: PlanOverrides
  /** Undefined if the bundle has no `callers`. */
  readonly callers: CallerReader | undefined
}

/** Makes the reader of a plan's callers, which is dropped with the plan. */
export type CallerReaderOf = (callers: Callers) => CallerReader

/** Without any keys, nobody is known. */
export const readNobody: CallerReaderOf = () => ({ read: () => ({ problem: 'no_credential' }) })

/** Opens a plan's counters, yielding after each. `sincesMs` says, by counter index, since when its limit applies. */
export function* openPlan(
  plan: Plan,
  store: CounterStore,
  sincesMs: Float64Array,
  callerDigest: CallerDigest,
  callerReaderOf: CallerReaderOf,
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
  const callers = plan.callers && callerReaderOf(plan.callers.source)
  return { plan, counters, byIdentity, overrides: new PlanOverrides(plan, store, callerDigest), callers }
}

/**
 * The plans that a thread has prepared, and the generation of the active one in a shared word. Each decision reads the word, so that all threads switch to
 * a new plan at the same moment.
 */
export class PlanSwitch {
  readonly #word: Int32Array
  readonly #ready = new Map<number, ActivePlan>()
  #active: ActivePlan | undefined
  #activeGeneration = 0

  constructor(word: Int32Array = new Int32Array(1)) {
    this.#word = word
  }

  /** Rises with every plan; 0 means that there is none yet. */
  get generation(): number {
    return Atomics.load(this.#word, 0)
  }

  get active(): ActivePlan | undefined {
    const generation = Atomics.load(this.#word, 0)
    if (generation !== this.#activeGeneration) this.#turn(generation)
    return this.#active
  }

  /**
   * Returns the plan that this thread used last, and those that are prepared. In a thread that has just started, the active plan is still among the latter.
   */
  *all(): Generator<ActivePlan> {
    if (this.#active !== undefined) yield this.#active
    yield* this.#ready.values()
  }

  /** Adds a plan, and drops those that never became active. */
  add(generation: number, plan: ActivePlan): void {
    const active = this.generation
    for (const other of this.#ready.keys()) if (other !== active) this.#ready.delete(other)
    this.#ready.set(generation, plan)
  }

  /** Activates a plan in all threads that share the word. Each of them must have added it. */
  turnTo(generation: number): void {
    Atomics.store(this.#word, 0, generation)
  }

  #turn(generation: number): void {
    const plan = this.#ready.get(generation)
    if (plan === undefined) throw new Error(`plan ${generation} is active and was not prepared in this thread`)
    this.#active = plan
    this.#activeGeneration = generation
    for (const other of this.#ready.keys()) if (other <= generation) this.#ready.delete(other)
  }
}

/** Since when each counter has had its current limit. Before that, it was refilled by the previous limit. */
export interface LimitAges {
  /** Indexed by the plan's counter index. */
  readonly sincesMs: Float64Array
  readonly byIdentity: ReadonlyMap<string, LimitAge>
}

interface LimitAge {
  readonly limit: Limit
  readonly sinceMs: number
}

/** Computes ages in the order of a plan's counters. A counter that the previous plan had with the same limit keeps its time. */
export function limitAges(counters: readonly NamedLimit[], nowMs: number, previous: LimitAges | undefined): LimitAges {
  const sincesMs = new Float64Array(counters.length)
  const byIdentity = new Map<string, LimitAge>()
  for (const [index, { name, limit }] of counters.entries()) {
    const before = previous?.byIdentity.get(name)
    const sinceMs = before !== undefined && isSameLimit(before.limit, limit) ? before.sinceMs : nowMs
    sincesMs[index] = sinceMs
    byIdentity.set(name, { limit, sinceMs })
  }
  return { sincesMs, byIdentity }
}
