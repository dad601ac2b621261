import { isCredential } from '../policy/descriptor-key.ts'
import type { PlanRule } from '../policy/plan.ts'
import { HalfSipHash, type HashState } from '../store/half-sip-hash.ts'
import { SubjectWords } from '../store/subject.ts'

/** A rule as text: it outlives its plan. */
export interface RuleName {
  readonly policy: string
  readonly rule: string
  readonly limitKeys: readonly string[]
}

/** A rule as far as its callers are concerned. */
export interface KnownRule extends RuleName {
  /** By key, whether its values are credentials. */
  readonly credentials: readonly boolean[]
  /** The hash of its name, with which the hash of each caller begins. */
  readonly prefix: HashState
}

/** Tells callers of rules apart, in all threads alike: by 64 bits of a keyed hash of the rule's name and the caller's values. */
export class CallerIds {
  /** Of the caller that was identified last. */
  low = 0
  high = 0
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()
  readonly #known = new WeakMap<PlanRule, KnownRule>()
  /** Of the rule that came last: mostly it is the next one's too, and comparing is cheaper than the map. */
  #lastRule: PlanRule | undefined
  #last: KnownRule | undefined

  constructor(hashKey: readonly [number, number]) {
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Leaves the bits in `low` and `high`. The values begin at `from`. */
  identify(rule: PlanRule, values: readonly string[], from: number): KnownRule {
    const known = rule === this.#lastRule ? this.#last! : this.#recall(rule)
    const subject = this.#subject
    subject.clear()
    for (let k = 0; k < known.limitKeys.length; k++) subject.addText(values[from + k]!)
    this.#hash.digest(subject.words, subject.length, known.prefix)
    this.low = this.#hash.low
    this.high = this.#hash.high
    return known
  }

  #recall(rule: PlanRule): KnownRule {
    const known = this.#known.get(rule) ?? this.#learn(rule)
    this.#lastRule = rule
    this.#last = known
    return known
  }

  #learn(plan: PlanRule): KnownRule {
    const { limitKeys } = plan
    const [policy, rule] = [plan.policy.id, plan.name]
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(['top', policy, rule, ...limitKeys])
    const prefix = this.#hash.absorb(subject.words, subject.length)
    const known = { policy, rule, limitKeys, credentials: limitKeys.map(isCredential), prefix }
    this.#known.set(plan, known)
    return known
  }
}
