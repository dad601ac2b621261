import type { Patterns } from '../patterns.ts'
import { compileMatch, type KeyMatch } from '../rule-match.ts'
import type { Policy, Rule } from '../schema/bundle.ts'
import { type StatedLimit, statedLimits } from '../stated-limit.ts'

const PREFIX = 'descriptor:'
/** No name in a bundle contains this character. */
const SEPARATOR = '\0'

/** The part of a compiled rule that the index uses. */
interface Compiled {
  /** In the order of the keys in the rule's `match`. */
  readonly match: readonly { readonly patterns: Patterns }[] | undefined
}

/** Finds the rules that cover a descriptor of the rate limit service, by its domain and its keys. */
export class DomainIndex<R extends Compiled, P extends { readonly rules: readonly R[] }> {
  readonly #domains = new Map<string, Domain<R, P>>()
  #ruleCount = 0

  /** `compiled` is the same policy, with its rules in the same order. */
  add({ selector, rules }: Policy['spec'], compiled: P): void {
    const { domain = '', descriptors = {} } = selector ?? {}
    const found = this.#domains.get(domain) ?? new Domain<R, P>()
    this.#domains.set(domain, found)
    found.policies.push(compiled)
    const conditions = compileMatch(descriptors)
    for (const [r, rule] of rules.entries()) {
      const part = { rule: compiled.rules[r]!, order: this.#ruleCount++, stated: statedLimits(rule) }
      for (const names of keySetsOf(rule, rules, conditions)) found.keySet(names).add(ruleIn(names, rule, conditions, part))
    }
  }

  get(domain: string): Domain<R, P> | undefined {
    return this.#domains.get(domain)
  }
}

/** The rules of one domain. */
class Domain<R, P> {
  readonly policies: P[] = []
  readonly #keySets = new Map<string, KeySet<R>>()

  /** Returns the rules for descriptors with exactly these keys. `names` must be sorted. */
  find(names: readonly string[]): KeySet<R> | undefined {
    const found = this.#keySets.get(textOf(names))
    // A name in a call may contain the separator, and must not pass for several names.
    return found?.names.length === names.length ? found : undefined
  }

  /** Returns the key set of these names, and creates it if there is none. */
  keySet(names: readonly string[]): KeySet<R> {
    const text = textOf(names)
    const known = this.#keySets.get(text)
    if (known !== undefined) return known
    const added = new KeySet<R>(names)
    this.#keySets.set(text, added)
    return added
  }
}

/** Most descriptors have one or two keys, which need no `join`. */
function textOf(names: readonly string[]): string {
  if (names.length === 1) return names[0]!
  return names.length === 2 ? names[0] + SEPARATOR + names[1] : names.join(SEPARATOR)
}

/** Returns the key sets that a rule covers. An `else` without keys covers those of the rules with a `match` in its policy. */
function keySetsOf(rule: Rule, rules: readonly Rule[], conditions: readonly KeyMatch[]): readonly (readonly string[])[] {
  const own = [keysOf(rule, conditions)]
  if (rule.match !== 'else' || rule.limit_keys.length > 0) return own
  const matched = rules.filter(({ match }) => typeof match === 'object').map((other) => keysOf(other, conditions))
  return matched.length === 0 ? own : [...new Map(matched.map((names) => [textOf(names), names])).values()]
}

/** Returns the names of the rule's keys, sorted. */
function keysOf({ limit_keys, match }: Rule, conditions: readonly KeyMatch[]): readonly string[] {
  const names = new Set<string>()
  for (const key of limit_keys) names.add(nameOf(key))
  if (typeof match === 'object') for (const key of Object.keys(match)) names.add(nameOf(key))
  for (const { key } of conditions) names.add(nameOf(key.text))
  return [...names].sort()
}

function ruleIn<R extends Compiled>(
  names: readonly string[],
  { limit_keys, match }: Rule,
  ofPolicy: readonly KeyMatch[],
  part: Pick<KeySetRule<R>, 'rule' | 'order' | 'stated'>,
): KeySetRule<R> {
  const positionOf = (key: string): number => names.indexOf(nameOf(key))
  const conditions = ofPolicy.map(({ key, patterns }) => ({ position: positionOf(key.text), patterns }))
  const keys = typeof match === 'object' ? Object.keys(match) : []
  for (const [i, key] of keys.entries()) conditions.push({ position: positionOf(key), patterns: part.rule.match![i]!.patterns })
  return {
    ...part,
    isMatched: typeof match === 'object',
    isElse: match === 'else',
    limitKeys: limit_keys.map(positionOf),
    conditions,
  }
}

function nameOf(key: string): string {
  return key.slice(PREFIX.length)
}

/** A rule for descriptors with certain keys. Each key is given by its position among the names of the set. */
export interface KeySetRule<R> {
  readonly rule: R
  /** The rule's position in the bundle, among the rules of all policies with a domain. */
  readonly order: number
  /** Positions of the keys that tell callers apart. */
  readonly limitKeys: readonly number[]
  /** Conditions that must all hold. */
  readonly conditions: readonly Condition[]
  /** Whether the rule has a `match` of its own. */
  readonly isMatched: boolean
  /** Whether the rule applies only where no other rule of its policy with a `match` does. */
  readonly isElse: boolean
  /** The limits as the rate limit service states them, one for each counter of the rule. */
  readonly stated: readonly StatedLimit[]
}

interface Condition {
  readonly position: number
  readonly patterns: Patterns
}

/**
 * The rules for descriptors with the same keys. A rule that requires certain values of a key is found by the value, so that thousands of
 * such rules cost no more than one. Rules without such a condition are tried one by one.
 */
class KeySet<R> {
  /** The names of the keys, sorted. */
  readonly names: readonly string[]
  readonly #tried: KeySetRule<R>[] = []
  /** Rules by the position of a key, then by its value; undefined if no rule is found by that key. */
  readonly #byValue: (Map<string, KeySetRule<R>[]> | undefined)[]

  constructor(names: readonly string[]) {
    this.names = names
    this.#byValue = names.map(() => undefined)
  }

  add(rule: KeySetRule<R>): void {
    const best = this.#mostSelective(rule.conditions)
    if (best === undefined) {
      this.#tried.push(rule)
      return
    }
    const lists = this.#byValue[best.position] ?? new Map<string, KeySetRule<R>[]>()
    this.#byValue[best.position] = lists
    for (const text of best.patterns.texts) {
      const list = lists.get(text)
      if (list === undefined) lists.set(text, [rule])
      else list.push(rule)
    }
  }

  /** Writes the rules whose conditions hold to the start of `found`, in bundle order, and returns their number. `values` follow the order of the names. */
  find(values: readonly string[], found: KeySetRule<R>[]): number {
    let count = addThoseThatHold(this.#tried, values, found, 0)
    let isSorted = true
    for (let position = 0; position < this.#byValue.length; position++) {
      const list = this.#byValue[position]?.get(values[position]!)
      if (list === undefined) continue
      const before = count
      count = addThoseThatHold(list, values, found, before)
      if (before > 0 && count > before) isSorted = false
    }
    if (isSorted) return count
    const sorted = found.slice(0, count).sort((a, b) => a.order - b.order)
    for (let i = 0; i < count; i++) found[i] = sorted[i]!
    return count
  }

  /** Returns the condition, among those on whole values, that the fewest rules share so far. */
  #mostSelective(conditions: readonly Condition[]): Condition | undefined {
    let best: Condition | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const condition of conditions) {
      if (condition.patterns.hasPrefixes) continue
      const lists = this.#byValue[condition.position]
      let shared = 0
      for (const text of condition.patterns.texts) shared = Math.max(shared, lists?.get(text)?.length ?? 0)
      if (shared >= fewest) continue
      best = condition
      fewest = shared
    }
    return best
  }
}

function addThoseThatHold<R>(rules: readonly KeySetRule<R>[], values: readonly string[], found: KeySetRule<R>[], from: number): number {
  let count = from
  for (let i = 0; i < rules.length; i++) {
    const rule = rules[i]!
    if (holds(rule.conditions, values)) found[count++] = rule
  }
  return count
}

function holds(conditions: readonly Condition[], values: readonly string[]): boolean {
  for (let i = 0; i < conditions.length; i++) {
    const { position, patterns } = conditions[i]!
    if (!patterns.cover(values[position]!)) return false
  }
  return true
}
