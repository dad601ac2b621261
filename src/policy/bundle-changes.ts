import { isCredential, parseDescriptorKey } from './descriptor-key.ts'
import { isShownHeader } from './routes/planned-backend.ts'
import type { Bundle, Policy, Rule } from './schema/bundle.ts'
import type { PricesConfig } from './schema/prices.ts'

/** The differences between two bundles, as the admin API shows them. Large differences are listed only in part, but counted in full. */
export interface BundleChanges {
  readonly policies: ChangeCounts
  /** Whether the order of the policies that are in both bundles has changed. It matters because the first policy wins ties. */
  readonly reordered: boolean
  /** Counts of models, over all price tables. */
  readonly prices: ChangeCounts
  /** Whether `callers` has changed. */
  readonly callers: boolean
  /** Whether `backends` or `routes` has changed. */
  readonly routing: boolean
  /** Whether `usage` has changed. */
  readonly usage: boolean
  /** Whether every change is listed below. */
  readonly complete: boolean
  readonly policy_changes: readonly PolicyChange[]
  readonly price_changes: readonly PriceChange[]
  /** Fields of `callers`, with entries of `jwt` by their names: `jwt.okta.audiences`. */
  readonly caller_changes: readonly FieldChange[]
  /** Fields of `backends` and `routes`, with routes by their index: `backends.openai.url`, `routes.0.backends`. */
  readonly routing_changes: readonly FieldChange[]
  /** Fields of `usage`. */
  readonly usage_changes: readonly FieldChange[]
}

/** What is compared of the bundle that was active. */
export type ComparedBundle = Pick<Bundle, 'prices' | 'callers' | 'backends' | 'routes' | 'usage'> & { readonly policies: Iterable<Policy> }

interface PolicyChange {
  readonly kind: ChangeKind
  readonly policy: string
  readonly fields: readonly FieldChange[]
  readonly rules: readonly RuleChange[]
  /** How many changed fields and rules are not listed. */
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

/** Bound for one policy, or for one model of a price table. */
const MAX_LINES_OF_CHANGE = 100

/** Compares two bundles. The policies of `before` are iterated once, and none of them is kept in memory. */
export function bundleChanges(before: ComparedBundle, after: Bundle): BundleChanges {
  const policies = new ChangeList<Omit<PolicyChange, 'kind'>>()
  const reordered = comparePolicies(before.policies, after.policies, policies)
  const prices = new ChangeList<Omit<PriceChange, 'kind'>>()
  comparePrices(before.prices, after.prices, prices)
  const callerLines = new Lines(MAX_LINES_OF_CHANGE)
  const callerChanges = fieldChanges(callerFields(before.callers), callerFields(after.callers), callerLines)
  const routingLines = new Lines(MAX_LINES_OF_CHANGE)
  const routingChanges = fieldChanges(routingFields(before), routingFields(after), routingLines)
  const usageLines = new Lines(MAX_LINES_OF_CHANGE)
  const usageChanges = fieldChanges(before.usage, after.usage, usageLines)
  return {
    policies: policies.counts,
    reordered,
    prices: prices.counts,
    callers: callerLines.count > 0,
    routing: routingLines.count > 0,
    usage: usageLines.count > 0,
    complete: policies.isComplete && prices.isComplete && callerLines.leftOut + routingLines.leftOut === 0,
    policy_changes: policies.listed,
    price_changes: prices.listed,
    caller_changes: callerChanges,
    routing_changes: routingChanges,
    usage_changes: usageChanges,
  }
}

/** Returns whether the policies that are in both bundles have changed their order. */
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
  // Policies that differ only in the order of their fields are equal, although their JSON texts differ.
  if (before !== undefined && after !== undefined && lines.count === 0) return list.noteUnchanged()
  const policy = (before ?? after)!.id
  list.note(kindOf(before, after), { policy, fields, rules, left_out: lines.leftOut }, lines.taken)
}

/** The fields include the order of the rules that both policies have, which the rules themselves do not show. */
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

function ruleFields({ limit_keys, match, algorithm, wait_seconds, algorithm_config }: Rule): object {
  return { limit_keys, match, algorithm, wait_seconds, algorithm_config }
}

function comparePrices(before: PricesConfig = {}, after: PricesConfig = {}, list: ChangeList<Omit<PriceChange, 'kind'>>): void {
  for (const table of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, fresh] = [entriesOf(own(before, table)), entriesOf(own(after, table))]
    for (const model of new Set([...Object.keys(old), ...Object.keys(fresh)])) {
      const [one, other] = [own(old, model), own(fresh, model)]
      const lines = new Lines(MAX_LINES_OF_CHANGE)
      const fields = fieldChanges(one, other, lines)
      if (lines.count === 0) list.noteUnchanged()
      else list.note(kindOf(one, other), { table, model, fields }, lines.taken)
    }
  }
}

/** The aliases of a table are listed as one of its models, which cannot have their name. */
function entriesOf(table: PricesConfig[string] = {}): Readonly<Record<string, object>> {
  return { ...table } as Readonly<Record<string, object>>
}

/** Entries are compared by name, because their order means nothing. */
function callerFields(callers: Bundle['callers']): object | undefined {
  return callers && { ...callers, jwt: callers.jwt && Object.fromEntries(callers.jwt.map(({ name, ...entry }) => [name, entry])) }
}

/** Routes are compared by index, because their order decides. */
function routingFields({ backends, routes }: Pick<Bundle, 'backends' | 'routes'>): object {
  return { backends, routes: routes && { ...routes } }
}

/** Ignores inherited properties, because a table may be called `constructor`. */
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

/** A field such as `algorithm_config.burst`, before and after; null if it is absent. Credentials are shown only as their number. */
interface FieldChange {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}

const MAX_CHARACTERS = 200
/** How much of two long texts is shown before their first difference. */
const CONTEXT_CHARACTERS = 40
/** Patterns of a rule or a route, behind their key. */
const MATCH = /^(?:routes\.\d+\.)?match\.(.+)$/s
const HEADER = /^backends\..+\.headers\.(.+)$/s

/** Returns the fields that differ, or that only one of the objects has. Fields for which `lines` has no room are only counted. */
function fieldChanges(before: object | undefined, after: object | undefined, lines: Lines): FieldChange[] {
  const changes: FieldChange[] = []
  const note = (field: string, one: unknown, other: unknown): void => {
    const [before, after] = [textOf(one), textOf(other)]
    if (before === after || !lines.take()) return
    const from = before === null || after === null ? 0 : firstDifference(before, after)
    if (holdsCredentials(field)) changes.push({ field, before: countText(one), after: countText(other) })
    else if (isHidden(field, before) || isHidden(field, after)) changes.push({ field, before: before && HIDDEN, after: after && HIDDEN })
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

/** A list counts as one field, because nothing tells which item of one list became which item of another. */
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

/** True for fields such as `match.cookie:sid`. */
function holdsCredentials(field: string): boolean {
  const key = parseDescriptorKey(MATCH.exec(field)?.[1] ?? '')
  return key !== undefined && isCredential(key.text)
}

const HIDDEN = 'a hidden text'

/** True for texts of fields such as `backends.openai.headers.authorization` that may be credentials themselves. */
function isHidden(field: string, text: string | null): boolean {
  const name = HEADER.exec(field)?.[1]
  return name !== undefined && text !== null && !isShownHeader(name, text)
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

/** Returns the part of a long text around `at`. */
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

/** These bounds apply to each kind of change, so that thousands of one kind do not hide another. */
const MAX_LISTED = 200
const MAX_LINES_OF_KIND = 500

/** Counts changes, and lists the first ones of each kind: changed, then removed, then added. */
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

  /** `lines` is the length of the change, in lines. */
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

/** Counts the lines of a change: those that are listed, up to a bound, and those that are left out. */
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

  /** Counts one more line, and returns whether there is room to list it. */
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
