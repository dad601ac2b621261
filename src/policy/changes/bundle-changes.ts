import type { PricesConfig } from '../schema/prices.ts'
import type { Bundle, Policy, Rule } from '../schema.ts'
import { type ChangeCounts, type ChangeKind, ChangeList } from './change-list.ts'
import { type FieldChange, fieldChanges } from './field-changes.ts'
import { Lines } from './lines.ts'

/** What one bundle has that another had not, as the admin API shows it. Of a large difference a part, and how much it is in all. */
export interface BundleChanges {
  readonly policies: ChangeCounts
  /** Whether policies that both have come in another order: the first of them wins ties. */
  readonly reordered: boolean
  /** Of models, in all tables. */
  readonly prices: ChangeCounts
  /** Whether everything is listed below. */
  readonly complete: boolean
  readonly policy_changes: readonly PolicyChange[]
  readonly price_changes: readonly PriceChange[]
}

interface PolicyChange {
  readonly kind: ChangeKind
  readonly policy: string
  readonly fields: readonly FieldChange[]
  readonly rules: readonly RuleChange[]
  /** How many more fields and rules differ. */
  readonly left_out: number
}

interface RuleChange {
  readonly kind: ChangeKind
  readonly rule: string
  readonly fields: readonly FieldChange[]
}

interface PriceChange {
  readonly kind: ChangeKind
  readonly table: string
  readonly model: string
  readonly fields: readonly FieldChange[]
}

/** Of one policy. */
const MAX_LINES = 100

/** `before` is gone through once, and no policy of it is kept. */
export function bundleChanges(
  before: { readonly policies: Iterable<Policy>; readonly prices: Bundle['prices'] },
  after: Bundle,
): BundleChanges {
  const policies = new ChangeList<Omit<PolicyChange, 'kind'>>()
  const reordered = comparePolicies(before.policies, after.policies, policies)
  const prices = new ChangeList<Omit<PriceChange, 'kind'>>()
  comparePrices(before.prices, after.prices, prices)
  return {
    policies: policies.counts,
    reordered,
    prices: prices.counts,
    complete: policies.isComplete && prices.isComplete,
    policy_changes: policies.listed,
    price_changes: prices.listed,
  }
}

/** Returns whether those that both have are in another order. */
function comparePolicies(before: Iterable<Policy>, after: readonly Policy[], list: ChangeList<Omit<PolicyChange, 'kind'>>): boolean {
  const places = new Map(after.map(({ id }, place) => [id, place]))
  let isReordered = false
  let last = -1
  for (const policy of before) {
    const place = places.get(policy.id)
    if (place !== undefined) {
      isReordered ||= place < last
      last = place
      places.delete(policy.id)
    }
    notePolicy(policy, place === undefined ? undefined : after[place], list)
  }
  for (const place of places.values()) notePolicy(undefined, after[place], list)
  return isReordered
}

function notePolicy(before: Policy | undefined, after: Policy | undefined, list: ChangeList<Omit<PolicyChange, 'kind'>>): void {
  if (isSame(before, after)) return list.noteUnchanged()
  const lines = new Lines(MAX_LINES)
  const fields = fieldChanges(before && policyFields(before, after), after && policyFields(after, before), lines)
  const rules = ruleChanges(before?.spec.rules ?? [], after?.spec.rules ?? [], lines)
  // Written in another order, they differ as text and are the same.
  if (before !== undefined && after !== undefined && lines.count === 0) return list.noteUnchanged()
  const policy = (before ?? after)!.id
  list.note(kindOf(before, after), { policy, fields, rules, left_out: lines.leftOut }, lines.taken)
}

/** What the rules themselves do not show: in which order those come that both have. */
function policyFields({ spec: { mode, selector, rules } }: Policy, other: Policy | undefined): object {
  const names = new Set(other?.spec.rules.map(({ name }) => name))
  const order = rules.map(({ name }) => name).filter((name) => names.has(name))
  return { mode, selector, ...(order.length > 0 && { rules: order }) }
}

function ruleChanges(before: readonly Rule[], after: readonly Rule[], lines: Lines): RuleChange[] {
  const changes: RuleChange[] = []
  const note = (one: Rule | undefined, other: Rule | undefined): void => {
    if (isSame(one, other)) return
    const own = new Lines(lines.left - 1)
    const fields = fieldChanges(one && ruleFields(one), other && ruleFields(other), own)
    const kind = kindOf(one, other)
    if (kind === 'changed' && own.count === 0) return
    if (lines.take()) changes.push({ kind, rule: (one ?? other)!.name, fields })
    lines.add(own)
  }
  const missing = new Map(after.map((rule) => [rule.name, rule]))
  for (const rule of before) {
    note(rule, missing.get(rule.name))
    missing.delete(rule.name)
  }
  for (const rule of missing.values()) note(undefined, rule)
  return changes
}

function ruleFields({ limit_keys, match, algorithm, algorithm_config }: Rule): object {
  return { limit_keys, match, algorithm, algorithm_config }
}

function comparePrices(before: PricesConfig = {}, after: PricesConfig = {}, list: ChangeList<Omit<PriceChange, 'kind'>>): void {
  for (const table of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, fresh] = [own(before, table) ?? {}, own(after, table) ?? {}]
    for (const model of new Set([...Object.keys(old), ...Object.keys(fresh)])) {
      const [one, other] = [own(old, model), own(fresh, model)]
      const lines = new Lines(MAX_LINES)
      const fields = fieldChanges(one, other, lines)
      if (lines.count === 0) list.noteUnchanged()
      else list.note(kindOf(one, other), { table, model, fields }, lines.taken)
    }
  }
}

/** A table may be called `constructor`. */
function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}

function isSame(before: object | undefined, after: object | undefined): boolean {
  return before !== undefined && after !== undefined && JSON.stringify(before) === JSON.stringify(after)
}

function kindOf(before: object | undefined, after: object | undefined): ChangeKind {
  if (before === undefined) return 'added'
  return after === undefined ? 'removed' : 'changed'
}
