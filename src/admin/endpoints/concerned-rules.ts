import { APPLIES, elseAfter, NEEDS_BODY, NO_MATCH, OVER, partlyKnown, type Verdict, verdictOf } from '../../engine/rule-verdicts.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import type { Plan, PlanMatch, PlanRule } from '../../policy/plan.ts'
import type { CallerQuestion, GivenValue } from './caller-question.ts'

/** No more rules than this are looked at for one caller: so many whose counters are read, and so many that need more values. */
const MAX_CONCERNED = 500
/** Each rule is listed with its values. Long ones fill the response with fewer rules. */
const MAX_VALUE_CHARACTERS = 2 * 1024 * 1024

/** A rule that may apply to a caller. */
export interface ConcernedRule {
  readonly rule: PlanRule
  /** Values of those of its limit keys that are known. */
  readonly values: ReadonlyMap<string, string>
  /** Its other limit keys. */
  readonly missing: readonly string[]
  /** For a value alone, and a rule with several limit keys: those of them that it may be a value of. */
  readonly mayBe: readonly string[]
  /** Keys whose unknown values also decide whether it applies. */
  readonly dependsOn: readonly string[]
}

export interface ConcernedRules {
  /** Rules all of whose limit keys are known. */
  readonly complete: readonly ConcernedRule[]
  readonly incomplete: readonly ConcernedRule[]
  /** How many there are beyond those. */
  readonly leftOut: number
  /** Keys that were given and that the plan does not have. */
  readonly unusedKeys: readonly string[]
}

/**
 * Finds the rules that count or match one of the caller's values, one step for each rule: a bundle may have a hundred thousand. Rules that do so for none of
 * them concern every caller alike. Whether a rule may apply is judged as the engine judges it, with all other values undecided.
 */
export function* concernedSteps(plan: Plan, { given, policy: only }: CallerQuestion, wallMs: number): Generator<void, ConcernedRules> {
  const complete: ConcernedRule[] = []
  const incomplete: ConcernedRule[] = []
  let leftOut = 0
  let characters = 0
  for (const policy of plan.policies) {
    if (only !== undefined && policy.id !== only) continue
    for (const rule of policy.rules) {
      yield
      const search = new Search(plan, rule, wallMs)
      const concerned = 'values' in given ? yield* search.by(given.values) : yield* search.byValue(given.formFor)
      if (concerned === undefined) continue
      const list = concerned.missing.length === 0 ? complete : incomplete
      const more = characters + shownCharacters(concerned)
      if (list.length < MAX_CONCERNED && more <= MAX_VALUE_CHARACTERS) {
        list.push(concerned)
        characters = more
      } else leftOut++
    }
  }
  const keys = new Set(plan.keys.map(({ text }) => text))
  return { complete, incomplete, leftOut, unusedKeys: 'values' in given ? [...given.values.keys()].filter((key) => !keys.has(key)) : [] }
}

/** Credentials are listed as digests, which are short. */
function shownCharacters({ values }: ConcernedRule): number {
  let characters = 0
  for (const [key, value] of values) if (!isCredential(key)) characters += value.length
  return characters
}

/** Values by key. */
type KnownValues = ReadonlyMap<string, string>

/**
 * Finds out whether one rule concerns a caller. An `else`, of which a policy has one at most, takes at most two steps for each rule of its policy, however
 * many keys it has, so that a search takes at most four for each rule of the plan.
 */
class Search {
  readonly #plan: Plan
  readonly #rule: PlanRule
  readonly #wallMs: number

  constructor(plan: Plan, rule: PlanRule, wallMs: number) {
    this.#plan = plan
    this.#rule = rule
    this.#wallMs = wallMs
  }

  *by(known: KnownValues): Generator<void, ConcernedRule | undefined> {
    const rule = this.#rule
    const { limitKeys, isElse } = rule
    if (!isElse && !this.#isNamed(rule, known)) return undefined
    const own = verdictOf(rule, partlyKnown(this.#plan, known), this.#wallMs)
    if (own === NO_MATCH || own === OVER) return undefined
    const dependsOn = isElse ? yield* this.#othersOfElse(known) : this.#unknownOf(rule.match ?? [], known)
    if (dependsOn === undefined) return undefined
    return {
      rule,
      values: new Map(limitKeys.filter((key) => known.has(key)).map((key) => [key, known.get(key)!])),
      missing: limitKeys.filter((key) => !known.has(key)),
      mayBe: [],
      dependsOn,
    }
  }

  /** A value alone is tried as each of the rule's limit keys. Where it has none, this very value must be matched. */
  *byValue(formFor: GivenValue['formFor']): Generator<void, ConcernedRule | undefined> {
    const { limitKeys, isElse } = this.#rule
    const mayBe: string[] = []
    let first: ConcernedRule | undefined
    for (const key of yield* this.#keysToTry(formFor)) {
      const value = formFor(key)
      if (value === undefined) continue
      // Of an `else`, the other keys are known to apply, and what they depend on is not asked for.
      const concerned = isElse && first !== undefined ? first : yield* this.by(new Map([[key, value]]))
      if (concerned === undefined) continue
      first ??= concerned
      mayBe.push(key)
    }
    if (first === undefined || limitKeys.length < 2) return first
    // The value is not returned, because it may be a credential.
    return { ...first, values: new Map(), missing: limitKeys, mayBe }
  }

  #keysToTry(formFor: GivenValue['formFor']): Generator<void, readonly string[]> {
    return this.#rule.limitKeys.length === 0 ? this.#keysThatTell(formFor) : this.#limitKeysLeft(formFor)
  }

  /**
   * Returns the limit keys, of an `else` without those under which another rule takes the value. Only a rule that matches this key and no other can do so,
   * which is why one walk through the policy is enough for all keys.
   */
  *#limitKeysLeft(formFor: GivenValue['formFor']): Generator<void, readonly string[]> {
    const { limitKeys, isElse, policy } = this.#rule
    if (!isElse || limitKeys.length < 2) return limitKeys
    const left = new Set(limitKeys)
    for (const other of policy.rules) {
      yield
      if (other.match?.length !== 1) continue
      const key = this.#keyOf(other.match[0]!)
      const value = left.has(key) ? formFor(key) : undefined
      if (value === undefined) continue
      if (verdictOf(other, partlyKnown(this.#plan, new Map([[key, value]])), this.#wallMs) === APPLIES) left.delete(key)
    }
    return [...left]
  }

  /** Returns the keys whose values decide whether an `else` applies; undefined: it does not, or its policy asks for no known key. */
  *#othersOfElse(known: KnownValues): Generator<void, readonly string[] | undefined> {
    const values = partlyKnown(this.#plan, known)
    const unknown = new Set<string>()
    let isNamed = this.#isNamed(this.#rule, known)
    let verdict: Verdict = APPLIES
    for (const other of this.#rule.policy.rules) {
      yield
      if (other.match === undefined) continue
      const ofOther = verdictOf(other, values, this.#wallMs)
      verdict = elseAfter(verdict, other, ofOther)
      if (verdict === NO_MATCH) return undefined
      isNamed ||= this.#isNamed(other, known)
      if (ofOther !== NEEDS_BODY) continue
      for (const key of this.#unknownOf(other.match, known)) unknown.add(key)
      for (const key of other.limitKeys) if (!known.has(key)) unknown.add(key)
    }
    return isNamed ? [...unknown] : undefined
  }

  /** The first key whose value the rule matches, or of an `else` another rule of its policy. */
  *#keysThatTell(formFor: GivenValue['formFor']): Generator<void, readonly string[]> {
    const { isElse, policy } = this.#rule
    for (const rule of isElse ? policy.rules : [this.#rule]) {
      yield
      const told = rule.match?.find((each) => tells(each, formFor(this.#keyOf(each))))
      if (told !== undefined) return [this.#keyOf(told)]
    }
    return []
  }

  #isNamed({ limitKeys, match = [] }: PlanRule, known: KnownValues): boolean {
    return limitKeys.some((key) => known.has(key)) || match.some((each) => known.has(this.#keyOf(each)))
  }

  #unknownOf(match: readonly PlanMatch[], known: KnownValues): string[] {
    return match.map((each) => this.#keyOf(each)).filter((key) => !known.has(key))
  }

  #keyOf({ keyIndex }: PlanMatch): string {
    return this.#plan.keys[keyIndex]!.text
  }
}

/** A pattern that covers every value does not tell callers apart. */
function tells({ patterns }: PlanMatch, value: string | undefined): boolean {
  return value !== undefined && patterns.cover(value) && !patterns.cover('')
}
