import type { Plan, PlanMatch, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import type { CallerQuestion } from './caller-question.ts'

/** No more rules than this are looked at for one caller. */
const MAX_CONCERNED = 500

/** A rule that may apply to a caller. */
export interface ConcernedRule {
  readonly rule: PlanRule
  /** Values of those of its limit keys that are known. */
  readonly values: ReadonlyMap<string, string>
  /** Its other limit keys. */
  readonly missing: readonly string[]
  /** Keys whose unknown values also decide whether it applies. */
  readonly dependsOn: readonly string[]
}

export interface ConcernedRules {
  readonly rules: readonly ConcernedRule[]
  /** How many there are beyond those. */
  readonly leftOut: number
  /** Keys that were given and that the plan does not have. */
  readonly unusedKeys: readonly string[]
}

/**
 * Finds the rules that count or match one of the caller's values, one step for each rule: a bundle may have a hundred thousand. Rules that do so for none of
 * them concern every caller alike.
 */
export function* concernedSteps(plan: Plan, { given, policy: only }: CallerQuestion): Generator<void, ConcernedRules> {
  const rules: ConcernedRule[] = []
  let leftOut = 0
  for (const policy of plan.policies) {
    if (only !== undefined && policy.id !== only) continue
    const conditions = new Conditions(plan, policy)
    for (const rule of policy.rules) {
      yield
      const known = 'values' in given ? given.values : knownByValue(plan, rule, given.formFor)
      const concerned = known && concernedBy(plan, rule, known, conditions)
      if (concerned === undefined) continue
      if (rules.length < MAX_CONCERNED) rules.push(concerned)
      else leftOut++
    }
  }
  const keys = new Set(plan.keys.map(({ text }) => text))
  return { rules, leftOut, unusedKeys: 'values' in given ? [...given.values.keys()].filter((key) => !keys.has(key)) : [] }
}

/** Values by key. */
type KnownValues = ReadonlyMap<string, string>

/** A value alone is tried with each rule that has one limit key, and with each that has none and matches this very value. */
function knownByValue(
  plan: Plan,
  { limitKeys, match = [] }: PlanRule,
  formFor: (key: string) => string | undefined,
): KnownValues | undefined {
  if (limitKeys.length > 1) return undefined
  const key = limitKeys[0] ?? match.map(({ keyIndex }) => plan.keys[keyIndex]!.text).find((text, i) => isTold(match[i]!, formFor(text)))
  const value = key === undefined ? undefined : formFor(key)
  return value === undefined ? undefined : new Map([[key!, value]])
}

/** A pattern that covers every value does not tell callers apart. */
function isTold({ patterns }: PlanMatch, value: string | undefined): boolean {
  return value !== undefined && patterns.cover(value) && !patterns.cover('')
}

function concernedBy(plan: Plan, rule: PlanRule, known: KnownValues, conditions: Conditions): ConcernedRule | undefined {
  const { limitKeys, match = [] } = rule
  const isNamed = limitKeys.some((key) => known.has(key)) || match.some(({ keyIndex }) => known.has(plan.keys[keyIndex]!.text))
  const dependsOn = isNamed ? conditions.of(rule, known) : undefined
  if (dependsOn === undefined) return undefined
  return {
    rule,
    values: new Map(limitKeys.filter((key) => known.has(key)).map((key) => [key, known.get(key)!])),
    missing: limitKeys.filter((key) => !known.has(key)),
    dependsOn,
  }
}

/** Tells which keys with unknown values decide whether a rule of one policy applies; undefined: it does not, whatever they are. */
class Conditions {
  readonly #plan: Plan
  readonly #policy: PlanPolicy
  /** Those of rules with `match: else`, by the first known key: for one question it is always the same key, or the only one. */
  readonly #ofElse = new Map<string, readonly string[] | undefined>()

  constructor(plan: Plan, policy: PlanPolicy) {
    this.#plan = plan
    this.#policy = policy
  }

  of(rule: PlanRule, known: KnownValues): readonly string[] | undefined {
    if (!rule.isElse) return this.#ofMatch(rule, known)
    const [first] = known.keys()
    if (!this.#ofElse.has(first!)) this.#ofElse.set(first!, this.#findElse(known))
    return this.#ofElse.get(first!)
  }

  #ofMatch({ match = [] }: PlanRule, known: KnownValues): string[] | undefined {
    const unknown: string[] = []
    for (const { keyIndex, patterns } of match) {
      const { text } = this.#plan.keys[keyIndex]!
      const value = known.get(text)
      if (value === undefined) unknown.push(text)
      else if (!patterns.cover(value)) return undefined
    }
    return unknown
  }

  /** A rule with `match: else` applies where no other rule of its policy with a `match` does. */
  #findElse(known: KnownValues): readonly string[] | undefined {
    const unknown = new Set<string>()
    for (const other of this.#policy.rules) {
      if (other.match === undefined) continue
      const conditions = this.#ofMatch(other, known)
      if (conditions?.length === 0) return undefined
      for (const key of conditions ?? []) unknown.add(key)
    }
    return [...unknown]
  }
}
