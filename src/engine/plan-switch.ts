import type { ActivePlan } from './active-plan.ts'

/**
 * The plans that a thread has prepared, and the generation of the active one in a shared word. Each decision reads the word, so that all
 * threads switch to a new plan at the same moment.
 */
export class PlanSwitch {
  readonly #word: Int32Array
  readonly #ready = new Map<number, ActivePlan>()
  #active: ActivePlan | undefined
  #activeGeneration = 0

  constructor(word: Int32Array = new Int32Array(1)) {
    this.#word = word
  }

  /** Rises with every plan; 0: none yet. */
  get generation(): number {
    return Atomics.load(this.#word, 0)
  }

  get active(): ActivePlan | undefined {
    const generation = Atomics.load(this.#word, 0)
    if (generation !== this.#activeGeneration) this.#turn(generation)
    return this.#active
  }

  /** The plan that this thread used last, and those that are prepared: the active one may not be yet, in a thread that has just started. */
  *all(): Generator<ActivePlan> {
    if (this.#active !== undefined) yield this.#active
    yield* this.#ready.values()
  }

  /** Plans that never became active are dropped when the next one is added. */
  add(generation: number, plan: ActivePlan): void {
    const active = this.generation
    for (const other of this.#ready.keys()) if (other !== active) this.#ready.delete(other)
    this.#ready.set(generation, plan)
  }

  /** Activates it in all threads that share the word. Each of them must have added it. */
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
