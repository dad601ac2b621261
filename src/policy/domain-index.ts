import { KeySet, type KeySetRule } from './key-set.ts'
import { compileMatch, type KeyMatch } from './rule-match.ts'
import type { Policy, Rule } from './schema.ts'
import { statedLimits } from './stated-limit.ts'

const PREFIX = 'descriptor:'
/** No name in a bundle has it. */
const SEPARATOR = '\0'

/** Finds the rules that cover a descriptor of the rate limit service, by its domain and its keys. */
export class DomainIndex<R> {
  readonly #domains = new Map<string, Domain<R>>()
  #ruleCount = 0

  /** `compiled` are the policy's rules in a plan, in the same order. */
  add({ selector, rules }: Policy['spec'], compiled: readonly R[]): void {
    const { domain = '', descriptors = {} } = selector ?? {}
    const found = this.#domains.get(domain) ?? new Domain()
    this.#domains.set(domain, found)
    found.policyCount++
    const conditions = compileMatch(descriptors)
    const matched = rules.filter(({ match }) => typeof match === 'object').map((rule) => keysOf(rule, conditions))
    for (const [r, rule] of rules.entries()) {
      const part = { rule: compiled[r]!, order: this.#ruleCount++, stated: statedLimits(rule) }
      for (const names of keySetsOf(rule, conditions, matched)) found.keySet(names).add(ruleIn(names, rule, conditions, part))
    }
  }

  get(domain: string): Domain<R> | undefined {
    return this.#domains.get(domain)
  }
}

/** The rules of one domain. */
class Domain<R> {
  policyCount = 0
  readonly #keySets = new Map<string, KeySet<R>>()

  /** The rules for descriptors with these keys and no others. `names` are sorted. */
  find(names: readonly string[]): KeySet<R> | undefined {
    const found = this.#keySets.get(names.length === 1 ? names[0]! : names.join(SEPARATOR))
    // A name that has the separator is not several names.
    return found?.names.length === names.length ? found : undefined
  }

  /** For a bundle's rules. */
  keySet(names: readonly string[]): KeySet<R> {
    const text = names.join(SEPARATOR)
    const found = this.#keySets.get(text) ?? new KeySet(names)
    this.#keySets.set(text, found)
    return found
  }
}

/** The keys of the descriptors that a rule covers. An `else` without keys covers those that the other rules of its policy look at. */
function keySetsOf(rule: Rule, conditions: readonly KeyMatch[], matched: readonly (readonly string[])[]): readonly (readonly string[])[] {
  if (rule.match !== 'else' || rule.limit_keys.length > 0 || matched.length === 0) return [keysOf(rule, conditions)]
  return [...new Map(matched.map((names) => [names.join(SEPARATOR), names])).values()]
}

/** Sorted. */
function keysOf({ limit_keys, match }: Rule, conditions: readonly KeyMatch[]): readonly string[] {
  const keys = [...limit_keys, ...(typeof match === 'object' ? Object.keys(match) : []), ...conditions.map(({ key }) => key.text)]
  return [...new Set(keys.map(nameOf))].sort()
}

function ruleIn<R>(
  names: readonly string[],
  { limit_keys, match }: Rule,
  ofPolicy: readonly KeyMatch[],
  part: Pick<KeySetRule<R>, 'rule' | 'order' | 'stated'>,
): KeySetRule<R> {
  const own = typeof match === 'object' ? compileMatch(match) : []
  return {
    ...part,
    isMatched: typeof match === 'object',
    isElse: match === 'else',
    limitKeys: limit_keys.map((key) => names.indexOf(nameOf(key))),
    conditions: [...own, ...ofPolicy].map(({ key, patterns }) => ({ position: names.indexOf(nameOf(key.text)), patterns })),
  }
}

function nameOf(key: string): string {
  return key.slice(PREFIX.length)
}
