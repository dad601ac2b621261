import type { Override, TimedOverride } from '../../overrides/override.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { StatedLimit } from '../../policy/stated-limit.ts'
import type { Counter } from '../../store/charges.ts'
import type { CallerDigest } from '../decide-options.ts'

/** The overrides of one rule. An override for a single caller wins over one for all callers. */
export class RuleOverrides {
  readonly #ofAll: Variant[] = []
  /** A tree by the value of the first limit key, then of the next, and so on. */
  readonly #byValue: ValueNode = new Map()
  readonly #ofCallers = new Map<Variant, readonly string[]>()
  /** Variants by the digest of all values, for lookups that do not know the values. Built when first needed. */
  #byDigest: VariantLists | undefined
  /** The digest of no values when `#byDigest` was built. A different one means that the digest key has changed. */
  #digestOfNothing = ''
  /** For each limit key, whether its values are kept as digests. */
  readonly #isDigest: readonly boolean[]
  readonly #callerDigest: CallerDigest

  constructor({ limitKeys }: PlanRule, callerDigest: CallerDigest) {
    this.#isDigest = limitKeys.map(isCredential)
    this.#callerDigest = callerDigest
  }

  get isEmpty(): boolean {
    return this.#ofAll.length === 0 && this.#ofCallers.size === 0
  }

  add(variant: Variant, values: readonly string[]): void {
    if (values.length === 0) return void this.#ofAll.push(variant)
    let node = this.#byValue
    for (const value of values.slice(0, -1)) {
      const next = (node.get(value) as ValueNode | undefined) ?? new Map()
      node.set(value, next)
      node = next
    }
    addTo(node as VariantLists, values.at(-1)!, variant)
    this.#ofCallers.set(variant, values)
    if (this.#byDigest !== undefined) addTo(this.#byDigest, this.#callerDigest(values), variant)
  }

  /** Removes a variant that was added with the same values. */
  remove(variant: Variant, values: readonly string[]): void {
    if (values.length === 0) return void this.#ofAll.splice(this.#ofAll.indexOf(variant), 1)
    removeFrom(this.#byValue, values, variant)
    this.#ofCallers.delete(variant)
    if (this.#byDigest !== undefined) removeFrom(this.#byDigest, [this.#callerDigest(values)], variant)
  }

  /** Returns the variant in force for a caller. `values` are in the order of the rule's limit keys. */
  find(values: readonly string[], nowMs: number): Variant | undefined {
    let node: ValueNode | Variant[] | undefined = this.#ofCallers.size === 0 ? undefined : this.#byValue
    for (let k = 0; node !== undefined && k < this.#isDigest.length; k++) {
      const value = values[k]!
      node = (node as ValueNode).get(this.#isDigest[k] ? this.#callerDigest([value]) : value)
    }
    return (node && latestInForce(node as Variant[], nowMs)) ?? latestInForce(this.#ofAll, nowMs)
  }

  /** Returns the variant in force for a caller. `digest` is made by `subjectDigest`; undefined means that it is unknown. */
  findByDigest(digest: string | undefined, nowMs: number): Variant | undefined {
    const own = digest === undefined ? undefined : this.#digests().get(digest)
    return (own && latestInForce(own, nowMs)) ?? latestInForce(this.#ofAll, nowMs)
  }

  #digests(): VariantLists {
    const digestOfNothing = this.#callerDigest([])
    if (this.#byDigest !== undefined && this.#digestOfNothing === digestOfNothing) return this.#byDigest
    const byDigest: VariantLists = new Map()
    for (const [variant, values] of this.#ofCallers) addTo(byDigest, this.#callerDigest(values), variant)
    this.#digestOfNothing = digestOfNothing
    this.#byDigest = byDigest
    return byDigest
  }
}

/** Digests a caller's values as overrides of the rule hold them: credentials are digests already. */
export function subjectDigest({ limitKeys }: PlanRule, values: readonly string[], callerDigest: CallerDigest): string {
  return callerDigest(values.map((value, k) => (isCredential(limitKeys[k]!) ? callerDigest([value]) : value)))
}

type ValueNode = Map<string, ValueNode | Variant[]>
type VariantLists = Map<string, Variant[]>

function addTo(lists: VariantLists, key: string, variant: Variant): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [variant])
  else list.push(variant)
}

/** Leaves no empty list or node behind. */
function removeFrom(node: ValueNode, [value, ...values]: readonly string[], variant: Variant): void {
  const next = node.get(value!)
  if (next instanceof Map) {
    removeFrom(next, values, variant)
    if (next.size === 0) node.delete(value!)
  } else if (next !== undefined) {
    const others = next.filter((each) => each !== variant)
    if (others.length === 0) node.delete(value!)
    else node.set(value!, others)
  }
}

/** The latest override wins: it replaces the earlier ones when it comes into force. */
function latestInForce(variants: readonly Variant[], nowMs: number): Variant | undefined {
  let latest: Variant | undefined
  for (let i = 0; i < variants.length; i++) {
    const variant = variants[i]!
    if (isInForce(variant, nowMs) && (latest === undefined || variant.fromMs >= latest.fromMs)) latest = variant
  }
  return latest
}

/** A rule under an override, with its counters open in a store: the rule's counters under other limits. */
export interface Variant {
  readonly override: Override
  /** In force from `fromMs` up to but not including `toMs`, on the monotonic clock. */
  readonly fromMs: number
  readonly toMs: number
  /** The changed rule, whose `variantOf` is the rule of the bundle. */
  readonly rule: PlanRule
  /** One for each of the changed rule's counters; none if the override lifts or blocks the rule. */
  readonly counters: readonly Counter[]
  readonly stated: readonly StatedLimit[]
}

/** Returns the rule of the bundle, which decisions, metrics and logs name. */
export function bundleRule(rule: PlanRule): PlanRule {
  return rule.variantOf ?? rule
}

export function isInForce({ fromMs, toMs }: Pick<TimedOverride, 'fromMs' | 'toMs'>, nowMs: number): boolean {
  return fromMs <= nowMs && nowMs < toMs
}
