import type { PolicyText } from '../bundles/bundles.ts'

interface ModelRule {
  readonly match: Readonly<Record<string, readonly string[]>> | undefined
  readonly limitKeys: readonly string[]
  readonly kind: 'bucket' | 'window' | 'charge' | 'unlimited' | 'block'
  readonly size: number
}

/** `only` is the selector's; `other` is the rule for what no match covers. */
export interface ModelPolicy {
  readonly isShadow: boolean
  readonly only: Readonly<Record<string, readonly string[]>> | undefined
  readonly rules: readonly ModelRule[]
  readonly other: ModelRule | undefined
}

export interface ModelDescriptor {
  readonly entries: readonly (readonly [name: string, value: string])[]
  readonly hits: number
  readonly isGivenBack: boolean
}

interface Counter {
  readonly policy: number
  readonly rule: NamedRule
  readonly values: Readonly<Record<string, string>>
  level: number
}

interface NamedRule extends ModelRule {
  readonly name: string
  readonly policy: number
  readonly isElse: boolean
}

/** What rules say of the descriptors of a call, as slowly and simply as can be. Buckets get one token a second; windows last an hour. */
export class ModelLimits {
  readonly #policies: readonly (Omit<ModelPolicy, 'rules' | 'other'> & { readonly rules: readonly NamedRule[] })[]
  readonly #counters = new Map<string, Counter>()
  #seconds = 0

  constructor(policies: readonly ModelPolicy[]) {
    this.#policies = policies.map(({ isShadow, only, rules, other }, p) => {
      const all = [...rules.map((rule) => ({ ...rule, isElse: false })), ...(other ? [{ ...other, match: undefined, isElse: true }] : [])]
      const named = all.map((rule, r) => ({ ...rule, limitKeys: isCounted(rule) ? rule.limitKeys : [], name: `r${r}`, policy: p }))
      return { isShadow, only, rules: named.filter((rule) => keySets(rule, named, only).some((keys) => keys.length > 0)) }
    })
  }

  /** As bundles write them. Rules that would cover nothing are left out. */
  get policies(): PolicyText[] {
    return this.#policies.map(({ isShadow, only, rules }, p) => ({
      id: `p${p}`,
      spec: {
        mode: isShadow ? 'shadow' : 'enforce',
        selector: { domain: 'd', ...(only && { descriptors: keyed(only) }) },
        rules: rules.map(written),
      },
    }))
  }

  decide(call: readonly ModelDescriptor[]): { told: string; wouldRejects: string[] } {
    const covers = call.map((descriptor) => this.#rulesFor(descriptor))
    const isEnforcing = (rule: NamedRule): boolean => !this.#policies[rule.policy]!.isShadow
    const isBlocked = (d: number, rule: NamedRule): boolean => rule.kind === 'block' && !call[d]!.isGivenBack
    const blocks = covers.map((rules, d) => rules.find((rule) => isEnforcing(rule) && isBlocked(d, rule)))
    if (blocks.some((block) => block !== undefined)) {
      return { told: ['reject', ...blocks.map((block) => (block ? `over ${block.name} 0` : 'ok - 0'))].join(', '), wouldRejects: [] }
    }
    const enforced = this.#take(
      call,
      covers.map((rules) => rules.filter(isEnforcing)),
    )
    const taken = this.#statuses(call, covers, enforced.over, isEnforcing, false)
    if (enforced.isOver) return { told: ['reject', ...taken].join(', '), wouldRejects: [] }
    this.#giveBack(call, covers)
    const given = this.#statuses(call, covers, enforced.over, isEnforcing, true)
    const statuses = call.map(({ isGivenBack }, d) => (isGivenBack ? given[d] : taken[d]))
    const wouldRejects: string[] = []
    for (const [p, { isShadow }] of this.#policies.entries()) {
      if (!isShadow) continue
      const own = covers.map((rules) => rules.filter(({ policy }) => policy === p))
      const isOver = own.some((rules, d) => rules.some((rule) => isBlocked(d, rule))) || this.#take(call, own).isOver
      if (isOver) wouldRejects.push(`p${p}`)
    }
    return { told: ['allow', ...statuses].join(', '), wouldRejects }
  }

  *counters(): Generator<{ policy: string; rule: string; values: Record<string, string>; level: number }> {
    for (const { policy, rule, values, level } of this.#counters.values()) {
      yield { policy: `p${policy}`, rule: rule.name, values: keyed(values) as Record<string, string>, level }
    }
  }

  advance(seconds: number): void {
    const isNewHour = Math.floor((this.#seconds + seconds) / 3600) > Math.floor(this.#seconds / 3600)
    this.#seconds += seconds
    for (const counter of this.#counters.values()) {
      const { kind, size } = counter.rule
      if (kind === 'bucket') counter.level = Math.min(size, counter.level + seconds)
      else if (isNewHour) counter.level = size
    }
  }

  /** All or nothing, but what charges is charged in debt too. */
  #take(call: readonly ModelDescriptor[], covers: readonly (readonly NamedRule[])[]): { isOver: boolean; over: Set<Counter> } {
    const costs = new Map<Counter, number>()
    for (const [d, rules] of covers.entries()) {
      if (call[d]!.isGivenBack) continue
      for (const rule of rules.filter(isCounted)) {
        const counter = this.#counterOf(rule, call[d]!)
        costs.set(counter, (costs.get(counter) ?? 0) + call[d]!.hits)
      }
    }
    const over = new Set<Counter>()
    let isRefused = false
    for (const [counter, cost] of costs) {
      const isCharging = counter.rule.kind === 'charge'
      if (isCharging ? counter.level > 0 : counter.level >= Math.max(1, cost)) continue
      over.add(counter)
      if (!isCharging || cost === 0) isRefused = true
    }
    if (!isRefused) for (const [counter, cost] of costs) counter.level -= cost
    return { isOver: over.size > 0, over }
  }

  #giveBack(call: readonly ModelDescriptor[], covers: readonly (readonly NamedRule[])[]): void {
    for (const [d, rules] of covers.entries()) {
      if (!call[d]!.isGivenBack) continue
      for (const rule of rules.filter(isCounted)) {
        const counter = this.#counterOf(rule, call[d]!)
        counter.level = Math.min(rule.size, counter.level + call[d]!.hits)
      }
    }
  }

  /** `isGiven`: what is given back was given. */
  #statuses(
    call: readonly ModelDescriptor[],
    covers: readonly (readonly NamedRule[])[],
    over: ReadonlySet<Counter>,
    isEnforcing: (rule: NamedRule) => boolean,
    isGiven: boolean,
  ): string[] {
    return covers.map((rules, d) => {
      const own = rules.filter(isEnforcing)
      const counters = call[d]!.isGivenBack && !isGiven ? [] : own.filter(isCounted).map((rule) => this.#counterOf(rule, call[d]!))
      const refusing = call[d]!.isGivenBack ? [] : counters.filter((counter) => over.has(counter))
      if (refusing.length > 0) return `over ${this.#longest(refusing, call).rule.name} 0`
      const [scarcest] = [...counters].sort((a, b) => a.level / a.rule.size - b.level / b.rule.size)
      if (scarcest !== undefined) return `ok ${scarcest.rule.name} ${Math.max(0, scarcest.level)}`
      return own.some(({ kind }) => kind === 'unlimited') ? 'ok - Infinity' : 'ok - 0'
    })
  }

  /** The first of those with the longest wait. */
  #longest(refusing: readonly Counter[], call: readonly ModelDescriptor[]): Counter {
    const waits = refusing.map((counter) => this.#wait(counter, call))
    return refusing[waits.indexOf(Math.max(...waits))]!
  }

  #wait({ rule, level, values, policy }: Counter, call: readonly ModelDescriptor[]): number {
    const cost = call
      .filter((each) => !each.isGivenBack && this.#rulesFor(each).some((own) => own.policy === policy && own.name === rule.name))
      .filter((each) => rule.limitKeys.every((name) => new Map(each.entries).get(name) === values[name]))
      .reduce((sum, { hits }) => sum + hits, 0)
    if (rule.kind !== 'charge' && Math.max(1, cost) > rule.size) return Number.POSITIVE_INFINITY
    return rule.kind === 'bucket' ? Math.max(1, cost) - level : 3600 - (this.#seconds % 3600)
  }

  #rulesFor({ entries }: ModelDescriptor): readonly NamedRule[] {
    const values = new Map(entries)
    const keys = [...values.keys()].sort().join()
    return this.#policies.flatMap(({ rules, only }) => {
      const covering = rules.filter((rule) => {
        const hasKeys = keySets(rule, rules, only).some((set) => set.join() === keys)
        return hasKeys && holds(only, values) && holds(rule.match, values)
      })
      const isMatched = covering.some(({ match }) => match !== undefined)
      return covering.filter(({ isElse }) => !isElse || !isMatched)
    })
  }

  #counterOf(rule: NamedRule, { entries }: ModelDescriptor): Counter {
    const all = new Map(entries)
    const values = Object.fromEntries(rule.limitKeys.map((name) => [name, all.get(name)!]))
    const text = JSON.stringify([rule.policy, rule.name, values])
    const known = this.#counters.get(text)
    if (known !== undefined) return known
    const counter = { policy: rule.policy, rule, values, level: rule.size }
    this.#counters.set(text, counter)
    return counter
  }
}

function isCounted({ kind }: ModelRule): boolean {
  return kind !== 'unlimited' && kind !== 'block'
}

function holds(match: ModelRule['match'], values: ReadonlyMap<string, string>): boolean {
  return Object.entries(match ?? {}).every(([name, patterns]) => {
    const value = values.get(name)!
    return patterns.some((pattern) => (pattern.endsWith('*') ? value.startsWith(pattern.slice(0, -1)) : value === pattern))
  })
}

/** The keys of the descriptors that a rule covers, sorted. */
function keySets(rule: Omit<NamedRule, 'policy'>, rules: readonly Omit<NamedRule, 'policy'>[], only: ModelPolicy['only']): string[][] {
  const own = [...new Set([...rule.limitKeys, ...Object.keys(rule.match ?? {}), ...Object.keys(only ?? {})])].sort()
  const matched = rules.filter(({ match }) => match !== undefined)
  if (!rule.isElse || rule.limitKeys.length > 0 || matched.length === 0) return [own]
  return matched.flatMap((other) => keySets(other, rules, only))
}

function written({ name, match, isElse, limitKeys, kind, size }: NamedRule): object {
  const common = { name, ...(match && { match: keyed(match) }), ...(isElse && { match: 'else' }) }
  const limit_keys = limitKeys.map((key) => `descriptor:${key}`)
  if (kind === 'unlimited' || kind === 'block') return { ...common, algorithm: kind }
  if (kind === 'bucket') return { ...common, limit_keys, algorithm: 'token_bucket', algorithm_config: { rate: '1/second', burst: size } }
  const algorithm_config = { limit: size, period: '1h', when_over: kind === 'charge' ? 'charge' : 'reject' }
  return { ...common, limit_keys, algorithm: 'fixed_window', algorithm_config }
}

function keyed(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`descriptor:${name}`, value]))
}
