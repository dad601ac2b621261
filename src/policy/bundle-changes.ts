import { isCredential, parseDescriptorKey } from './descriptor-key.ts'
import type { Bundle, Policy, Rule } from './schema/bundle.ts'
import type { PricesConfig } from './schema/prices.ts'

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
const MAX_LINES_OF_CHANGE = 100

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
  const indexes = new Map(after.map(({ id }, index) => [id, index]))
  let isReordered = false
  let last = -1
  for (const policy of before) {
    const index = indexes.get(policy.id)
    if (index !== undefined) {
      isReordered ||= index < last
      last = index
      indexes.delete(policy.id)
    }
    notePolicy(policy, index === undefined ? undefined : after[index], list)
  }
  for (const index of indexes.values()) notePolicy(undefined, after[index], list)
  return isReordered
}

function notePolicy(before: Policy | undefined, after: Policy | undefined, list: ChangeList<Omit<PolicyChange, 'kind'>>): void {
  if (isSame(before, after)) return list.noteUnchanged()
  const lines = new Lines(MAX_LINES_OF_CHANGE)
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
      const lines = new Lines(MAX_LINES_OF_CHANGE)
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

/** A field such as `algorithm_config.burst`, before and after. Null: there was, or is, none. Of patterns for credentials only their number is told. */
interface FieldChange {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}

const MAX_CHARACTERS = 200
/** Shown before the position at which two long texts begin to differ. */
const CONTEXT_CHARACTERS = 40
const MATCH = 'match.'

/** The fields that differ between two objects, or that one of them has alone. Those for which there is no room are only counted. */
function fieldChanges(before: object | undefined, after: object | undefined, lines: Lines): FieldChange[] {
  const changes: FieldChange[] = []
  const note = (field: string, one: unknown, other: unknown): void => {
    const [before, after] = [textOf(one), textOf(other)]
    if (before === after || !lines.take()) return
    const from = before === null || after === null ? 0 : firstDifference(before, after)
    if (holdsCredentials(field)) changes.push({ field, before: countText(one), after: countText(other) })
    else changes.push({ field, before: excerpt(before, from), after: excerpt(after, from) })
  }
  const missing = new Map(fieldsOf(after ?? {}))
  for (const [field, value] of fieldsOf(before ?? {})) {
    note(field, value, missing.get(field))
    missing.delete(field)
  }
  for (const [field, value] of missing) note(field, undefined, value)
  return changes
}

/** Lists are one field: which of their items is which, nobody knows. */
function* fieldsOf(value: object, path = ''): Generator<[field: string, value: unknown]> {
  for (const [name, member] of Object.entries(value)) {
    const field = path === '' ? name : `${path}.${name}`
    if (member === undefined) continue
    if (typeof member === 'object' && member !== null && !Array.isArray(member)) yield* fieldsOf(member, field)
    else yield [field, member]
  }
}

function textOf(value: unknown): string | null {
  if (value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Such as `match.cookie:sid`. */
function holdsCredentials(field: string): boolean {
  if (!field.startsWith(MATCH)) return false
  const key = parseDescriptorKey(field.slice(MATCH.length))
  return key !== undefined && isCredential(key.text)
}

function countText(patterns: unknown): string | null {
  if (patterns === undefined) return null
  return Array.isArray(patterns) && patterns.length !== 1 ? `${patterns.length} hidden patterns` : '1 hidden pattern'
}

function firstDifference(one: string, other: string): number {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  return at
}

/** Of a long text the part around `at`. */
function excerpt(text: string | null, at: number): string | null {
  if (text === null || text.length <= MAX_CHARACTERS) return text
  const from = Math.max(0, at - CONTEXT_CHARACTERS)
  const to = from + MAX_CHARACTERS
  return `${from > 0 ? '…' : ''}${text.slice(from, to)}${to < text.length ? '…' : ''}`
}

type ChangeKind = 'added' | 'removed' | 'changed'

interface ChangeCounts {
  readonly added: number
  readonly removed: number
  readonly changed: number
  readonly unchanged: number
}

/** Of each kind, so that thousands of one do not hide those of another. */
const MAX_LISTED = 200
const MAX_LINES_OF_KIND = 500

/** Counts changes, and lists the first of each kind: those that are changed, then removed, then added. */
class ChangeList<Change extends object> {
  readonly counts = { added: 0, removed: 0, changed: 0, unchanged: 0 }
  readonly #lists: Record<ChangeKind, { readonly changes: (Change & { readonly kind: ChangeKind })[]; lines: number }> = {
    changed: { changes: [], lines: 0 },
    removed: { changes: [], lines: 0 },
    added: { changes: [], lines: 0 },
  }
  isComplete = true

  get listed(): (Change & { readonly kind: ChangeKind })[] {
    return Object.values(this.#lists).flatMap(({ changes }) => changes)
  }

  /** `lines`: how long it is. */
  note(kind: ChangeKind, change: Change, lines: number): void {
    const list = this.#lists[kind]
    this.counts[kind]++
    if ('left_out' in change && change.left_out !== 0) this.isComplete = false
    if (list.changes.length < MAX_LISTED && list.lines < MAX_LINES_OF_KIND) {
      list.changes.push({ kind, ...change })
      list.lines += lines
    } else {
      this.isComplete = false
    }
  }

  noteUnchanged(): void {
    this.counts.unchanged++
  }
}

/** How many lines a change may have, and how many it would have. */
class Lines {
  readonly #max: number
  taken = 0
  leftOut = 0

  constructor(max: number) {
    this.#max = Math.max(max, 0)
  }

  get left(): number {
    return this.#max - this.taken
  }

  get count(): number {
    return this.taken + this.leftOut
  }

  /** Returns whether there is room for one more. */
  take(): boolean {
    const isTaken = this.left > 0
    if (isTaken) this.taken++
    else this.leftOut++
    return isTaken
  }

  add({ taken, leftOut }: Lines): void {
    this.taken += taken
    this.leftOut += leftOut
  }
}
