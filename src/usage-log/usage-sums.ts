import type { ReadRule, ReadUsageLine } from './usage-reader.ts'

/** What a row of a report sums up. Tokens are whole, money is in billionths. */
export interface UsageRow {
  /** The values that the row stands for, in the order of `by`; undefined where a request has none. */
  readonly values: readonly (string | undefined)[]
  readonly requests: ExactSum
  readonly input: ExactSum
  readonly cachedInput: ExactSum
  readonly output: ExactSum
  /** Tokens that rules have charged, by their own weights. */
  readonly charged: ExactSum
  readonly cost: ExactSum
}

/** Members of a line by which a report can be split, beside labels. */
const MEMBERS: Readonly<Record<string, (line: ReadUsageLine, rule: ReadRule | undefined) => unknown>> = {
  rule: (_line, rule) => rule && `${rule.policy}/${rule.rule}`,
  policy: (_line, rule) => rule?.policy,
  mode: (_line, rule) => rule?.mode ?? 'enforce',
  model: ({ model }) => model,
  sent_model: ({ sent_model: model }) => model,
  backend: ({ backend }) => backend,
  status: ({ status }) => status,
  end: ({ end }) => end,
  hour: ({ time }) => `${time.slice(0, 13)}:00Z`,
  day: ({ time }) => time.slice(0, 10),
  month: ({ time }) => time.slice(0, 7),
}

export const MEMBER_NAMES: readonly string[] = Object.keys(MEMBERS)

/** Members that tell the rules of one request apart. */
const OF_RULES: ReadonlySet<string> = new Set(['rule', 'policy', 'mode'])

/** More rows, or longer ones, take too much memory; requests of others are summed up in one row. Clients choose many labels, and a report may have 16. */
const BOUNDS = { rows: 200_000, characters: 32 * 1024 * 1024 }

/**
 * Sums up lines of the usage log. A request counts once in a row, whatever the number of rules that charged it. If the report is split by rules, it counts once
 * for each of them; otherwise what it cost is what the rule charged that charged most: rules with one price table charge the same.
 */
export class UsageSums {
  readonly by: readonly string[]
  readonly total: UsageRow
  /** Requests whose rows had no room; undefined if there are none. */
  others: UsageRow | undefined
  readonly #rows = new Map<string, UsageRow>()
  readonly #rule: string | undefined
  readonly #splitsRules: boolean
  readonly #bounds: typeof BOUNDS
  /** Characters in the names of all rows. */
  #characters = 0

  /** `rule`, such as `policy/rule`, leaves the others out. */
  constructor(by: readonly string[], rule: string | undefined, bounds = BOUNDS) {
    this.by = by
    this.#rule = rule
    this.#splitsRules = by.some((key) => OF_RULES.has(key))
    this.#bounds = bounds
    this.total = newRow(by.map(() => undefined))
  }

  /** The rows, the dearest first. */
  get rows(): UsageRow[] {
    return [...this.#rows.values()].sort(dearestFirst)
  }

  add(line: ReadUsageLine): void {
    const rules = this.#rule === undefined ? line.rules : line.rules.filter(({ policy, rule }) => `${policy}/${rule}` === this.#rule)
    if (rules.length === 0) return
    if (!this.#splitsRules) this.#count([this.total, this.#rowOf(line, undefined)], line, rules)
    else {
      for (const rule of rules) this.#count([this.#rowOf(line, rule)], line, [rule])
      this.#count([this.total], line, rules)
    }
  }

  #count(rows: readonly UsageRow[], { tokens }: ReadUsageLine, rules: readonly ReadRule[]): void {
    for (const row of rows) {
      row.requests.add(1)
      row.input.add(tokens?.input ?? 0)
      row.cachedInput.add(tokens?.cached_input ?? 0)
      row.output.add(tokens?.output ?? 0)
      row.charged.add(most(rules, ({ tokens: charged = 0 }) => charged))
      row.cost.add(most(rules, ({ cost_nanos: nanos = 0 }) => nanos))
    }
  }

  #rowOf(line: ReadUsageLine, rule: ReadRule | undefined): UsageRow {
    const values = this.by.map((key) => textOf(Object.hasOwn(MEMBERS, key) ? MEMBERS[key]!(line, rule) : line.labels?.[key]))
    const name = JSON.stringify(values)
    let row = this.#rows.get(name)
    if (row !== undefined) return row
    if (this.#rows.size >= this.#bounds.rows || this.#characters + name.length > this.#bounds.characters) {
      this.others ??= newRow(this.by.map(() => undefined))
      return this.others
    }
    row = newRow(values)
    this.#rows.set(name, row)
    this.#characters += name.length
    return row
  }
}

/** A sum of whole numbers that is exact, however large it gets. */
export class ExactSum {
  #large = 0n
  #small = 0

  add(amount: number): void {
    if (this.#small + amount > Number.MAX_SAFE_INTEGER) {
      this.#large += BigInt(this.#small)
      this.#small = 0
    }
    this.#small += amount
  }

  get value(): bigint {
    return this.#large + BigInt(this.#small)
  }
}

const NANO_DIGITS = 9

/** Formats billionths as units of the currency, with two to nine decimals. */
export function exactMoneyText(nanos: bigint): string {
  const digits = nanos.toString().padStart(NANO_DIGITS + 1, '0')
  const fraction = digits.slice(-NANO_DIGITS).replace(/0{1,7}$/, '')
  return `${digits.slice(0, -NANO_DIGITS)}.${fraction}`
}

function newRow(values: UsageRow['values']): UsageRow {
  const sum = (): ExactSum => new ExactSum()
  return { values, requests: sum(), input: sum(), cachedInput: sum(), output: sum(), charged: sum(), cost: sum() }
}

function most(rules: readonly ReadRule[], amountOf: (rule: ReadRule) => number): number {
  return rules.reduce((highest, rule) => Math.max(highest, amountOf(rule)), 0)
}

/** A file may be of somebody else, so a label may be anything. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}

function dearestFirst(a: UsageRow, b: UsageRow): number {
  for (const sum of ['cost', 'charged', 'requests'] as const) {
    const difference = b[sum].value - a[sum].value
    if (difference !== 0n) return difference > 0n ? 1 : -1
  }
  return JSON.stringify(a.values) < JSON.stringify(b.values) ? -1 : 1
}
