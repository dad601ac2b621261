import type { ActivePlan } from './active-plan.ts'

/**
 * The plans that a thread has ready, and the one word that says which of them holds. Threads that share the word turn
 * to a new plan in the same moment: each decision reads it.
 */
export class PlanSwitch {
  readonly #word: Int32Array
  readonly #ready = new Map<number, ActivePlan>()
  #active: ActivePlan | undefined
  #activeGeneration = 0

  constructor(word: Int32Array = new Int32Array(1)) {
    this.#word = word
  }

  /** Counts up with every plan; 0: there has been none. */
  get generation(): number {
    return Atomics.load(this.#word, 0)
  }

  get active(): ActivePlan | undefined {
    const generation = Atomics.load(this.#word, 0)
    if (generation !== this.#activeGeneration) this.#turn(generation)
    return this.#active
  }

  /** Plans that were never turned to are let go of when the next one comes. */
  add(generation: number, plan: ActivePlan): void {
    const holding = this.generation
    for (const other of this.#ready.keys()) if (other !== holding) this.#ready.delete(other)
    this.#ready.set(generation, plan)
  }

  /** For all threads that share the word; each of them must have the plan ready. */
  turnTo(generation: number): void {
    Atomics.store(this.#word, 0, generation)
  }

  #turn(generation: number): void {
    const plan = this.#ready.get(generation)
    if (plan === undefined) throw new Error(`plan ${generation} holds and is not ready in this thread`)
    this.#active = plan
    this.#activeGeneration = generation
    for (const other of this.#ready.keys()) if (other <= generation) this.#ready.delete(other)
  }
}
