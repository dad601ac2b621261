import type { TimedOverride } from '../overrides/override.ts'
import { identityName } from '../policy/compile.ts'
import { isCredential } from '../policy/descriptor-key.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { PlanCounter } from '../policy/plan-counter.ts'
import type { Counter } from '../store/charges.ts'
import type { NameOf } from './name-of.ts'
import type { Variant } from './variant.ts'

/** Finds the override that is in force for a rule and a caller. */
export class OverrideIndex {
  readonly #byRule = new Map<PlanRule, RuleOverrides>()
  /** By the identity of each of a rule's counters. */
  readonly #byIdentity = new Map<string, { readonly overrides: RuleOverrides; readonly position: number }>()
  /** Policies with a rule that an override may block. */
  readonly #blocked = new Set<PlanPolicy>()
  readonly #shadows: TimedOverride[] = []
  readonly #nameOf: NameOf

  constructor(nameOf: NameOf) {
    this.#nameOf = nameOf
  }

  addShadow(override: TimedOverride): void {
    this.#shadows.push(override)
  }

  /** `values`: in the order of the rule's limit keys, credentials as digests; none: all callers. */
  add(variant: Variant, values: readonly string[]): void {
    const rule = variant.rule.variantOf!
    let found = this.#byRule.get(rule)
    if (found === undefined) {
      found = new RuleOverrides(rule, this.#nameOf)
      this.#byRule.set(rule, found)
      for (const [position, counter] of rule.counters.entries()) this.#byIdentity.set(identityName(counter), { overrides: found, position })
    }
    found.add(variant, values)
    if (variant.rule.block !== undefined) this.#blocked.add(rule.policy)
  }

  get isEmpty(): boolean {
    return this.#byRule.size === 0 && this.#shadows.length === 0
  }

  /** Whether all policies are in shadow mode. */
  isShadowed(nowMs: number): boolean {
    return isAnyInForce(this.#shadows, nowMs)
  }

  /** Of one rule of the bundle. */
  of(rule: PlanRule): RuleOverrides | undefined {
    return this.#byRule.get(rule)
  }

  /** The counter of a caller under the override in force, by a counter of this or an earlier plan. Undefined where none limits it. */
  counterOf(counter: PlanCounter, values: readonly string[], nowMs: number): Counter | undefined {
    const found = this.#byIdentity.get(identityName(counter))
    return found?.overrides.find(values, nowMs)?.counters[found.position]
  }

  mayBlock(policy: PlanPolicy): boolean {
    return policy.hasBlocks || this.#blocked.has(policy)
  }
}

/** Those of one rule. An override of a caller wins over one of all callers. */
export class RuleOverrides {
  readonly #ofAll: Variant[] = []
  /** By the value of the first limit key, then by that of the next. */
  #byValue: ValueNode | undefined
  readonly #ofCallers: { readonly variant: Variant; readonly values: readonly string[] }[] = []
  /** By the digest of all values, for those who do not know them. Made when it is first needed. */
  #byDigest: ReadonlyMap<string, Variant[]> | undefined
  /** For each limit key, whether its values are known by their digests. */
  readonly #isDigest: readonly boolean[]
  readonly #nameOf: NameOf

  constructor({ limitKeys }: PlanRule, nameOf: NameOf) {
    this.#isDigest = limitKeys.map(isCredential)
    this.#nameOf = nameOf
  }

  add(variant: Variant, values: readonly string[]): void {
    if (values.length === 0) return void this.#ofAll.push(variant)
    this.#byValue ??= new Map()
    let node = this.#byValue
    for (const value of values.slice(0, -1)) {
      const next = (node.get(value) as ValueNode | undefined) ?? new Map()
      node.set(value, next)
      node = next
    }
    addTo(node as Map<string, Variant[]>, values.at(-1)!, variant)
    this.#ofCallers.push({ variant, values })
  }

  /** `values`: in the order of the rule's limit keys. */
  find(values: readonly string[], nowMs: number): Variant | undefined {
    let node: ValueNode | Variant[] | undefined = this.#byValue
    for (let k = 0; node !== undefined && k < this.#isDigest.length; k++) {
      const value = values[k]!
      node = (node as ValueNode).get(this.#isDigest[k] ? this.#nameOf([value]) : value)
    }
    return (node && latestInForce(node as Variant[], nowMs)) ?? latestInForce(this.#ofAll, nowMs)
  }

  /** `digest`: as `subjectDigest`; undefined: it is not known. */
  findByDigest(digest: string | undefined, nowMs: number): Variant | undefined {
    this.#byDigest ??= this.#digests()
    const own = digest === undefined ? undefined : this.#byDigest.get(digest)
    return (own && latestInForce(own, nowMs)) ?? latestInForce(this.#ofAll, nowMs)
  }

  #digests(): Map<string, Variant[]> {
    const byDigest = new Map<string, Variant[]>()
    for (const { variant, values } of this.#ofCallers) addTo(byDigest, this.#nameOf(values), variant)
    return byDigest
  }
}

/** Names the caller of a rule in the way in which overrides know it. */
export function subjectDigest({ limitKeys }: PlanRule, values: readonly string[], nameOf: NameOf): string {
  return nameOf(values.map((value, k) => (isCredential(limitKeys[k]!) ? nameOf([value]) : value)))
}

type ValueNode = Map<string, ValueNode | Variant[]>

function addTo(lists: Map<string, Variant[]>, key: string, variant: Variant): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [variant])
  else list.push(variant)
}

/** One override takes the place of another at its moment of force. */
function latestInForce(variants: readonly Variant[], nowMs: number): Variant | undefined {
  let latest: Variant | undefined
  for (let i = 0; i < variants.length; i++) {
    const variant = variants[i]!
    if (isInForce(variant, nowMs) && (latest === undefined || variant.fromMs >= latest.fromMs)) latest = variant
  }
  return latest
}

function isAnyInForce(list: readonly Times[], nowMs: number): boolean {
  for (let i = 0; i < list.length; i++) if (isInForce(list[i]!, nowMs)) return true
  return false
}

interface Times {
  readonly fromMs: number
  readonly toMs: number
}

function isInForce({ fromMs, toMs }: Times, nowMs: number): boolean {
  return fromMs <= nowMs && nowMs < toMs
}
