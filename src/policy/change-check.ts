import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { BUCKET, type BucketLimit, IN_FLIGHT, type Limit } from '../limiter/limit.ts'
import type { OverrideChange } from '../overrides/override.ts'
import { formatProblem, show } from '../text/problem.ts'
import { closest } from '../text/suggest.ts'
import { parseRate, RATE } from './algorithms/rate.ts'
import { tokenBucketLimits } from './algorithms/token-bucket.ts'
import { BURST, foundValue, IN_FLIGHT_REQUESTS, limitProblem, MONEY, type NumberForm, PER_SECOND, wholeNumber } from './limit-fields.ts'
import { ruleLimits } from './rule-limits.ts'
import type { Rule } from './schema/bundle.ts'

const MAX_FACTOR = 1_000_000
/** The factors that limits can be multiplied by, as a text that completes the sentence "expected …". */
export const FACTOR = `a number above 0, up to ${MAX_FACTOR}`

export function isFactor(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value <= MAX_FACTOR
}

export type LimitsChange = Extract<OverrideChange, { readonly kind: 'multiply' | 'set' }>

/**
 * Returns the rule with the limits that an override gives it, or a text that says what is wrong with them. This is the only check of what
 * overrides may set: it runs when an operator sets one, when one is read from the override storage, and again when a bundle changes the rule.
 */
export function changedLimits(rule: Rule, change: LimitsChange): Rule | string {
  const changed = change.kind === 'set' ? withSet(rule, change.fields) : multiplied(rule, change.factor)
  return typeof changed === 'string' ? changed : (rangeProblem(changed) ?? changed)
}

function withSet(rule: Rule, fields: Fields): Rule | string {
  const problems = [...setProblems(rule, fields)]
  return problems.length > 0 ? problems.slice(0, MAX_PROBLEMS).join('; ') : withFields(rule, fields)
}

type Fields = Readonly<Record<string, unknown>>

const MAX_PROBLEMS = 10

/** Reports all problems at once, in the same sentences as for a bundle. */
function* setProblems(rule: Rule, fields: Fields): Generator<string> {
  const known = settableFields(rule)
  if (known.length === 0) return yield `set: a rule with algorithm ${rule.algorithm} has no limits to set: use unlimited or block`
  const expected = `set: expected ${known.join(', ')}`
  const names = Object.keys(fields)
  if (names.length === 0) return yield `${expected}, but it is empty`
  const unknown = names.filter((name) => !known.includes(name))
  for (const name of unknown) yield `${expected}, got ${show(name)}${hint(name, known)}`
  if (unknown.length > 0) return
  for (const name of known.filter((each) => names.includes(each))) {
    const problem = limitProblem(name, fields[name])
    if (problem !== undefined) yield fieldProblem(name, fields, problem)
  }
  if (names.includes('rate') && names.includes('tokens_per_second')) {
    yield fieldProblem('rate', fields, 'either rate or tokens_per_second, not both')
  }
}

function fieldProblem(name: string, fields: Fields, expected: string): string {
  return `set.${formatProblem({ path: name, message: `expected ${expected}, ${foundValue(fields[name], expected)}` })}`
}

function hint(name: string, known: readonly string[]): string {
  const meant = closest(name, known)
  return meant === undefined ? '' : ` — did you mean ${show(meant)}?`
}

/** Multiplies all rates and sizes of a rule. Whole numbers are rounded down, and no size falls below the smallest that a bundle may have. */
function multiplied(rule: Rule, factor: number): Rule | string {
  const known = settableFields(rule)
  if (known.length === 0) return `a rule with algorithm ${rule.algorithm} has no limits: use unlimited or block`
  if (!isFactor(factor)) return `multiply: expected ${FACTOR}`
  switch (rule.algorithm) {
    case 'token_bucket': {
      const { rate, tokens_per_second } = rule.algorithm_config
      const burst = Math.max(1, product((ruleLimits(rule, false)[0]!.limit as BucketLimit).burst, factor))
      if (rate === undefined) return withFields(rule, { tokens_per_second: product(tokens_per_second!, factor), burst })
      const raised = multipliedRate(rate, factor)
      return parseRate(raised) === undefined ? 'rate is out of range' : withFields(rule, { rate: raised, burst })
    }
    case 'cost_budget': {
      const budget = Math.max(1, Math.floor(product(rule.algorithm_config.budget * 1e6, factor))) / 1e6
      return budget > MONEY.max ? `budget is above ${MONEY.max}` : withFields(rule, { budget })
    }
    default: {
      const numbers = Object.entries(rule.algorithm_config).filter(([name, value]) => known.includes(name) && value !== undefined)
      const whole = (count: number) => Math.max(1, Math.floor(product(count, factor)))
      return withFields(rule, Object.fromEntries(numbers.map(([name, value]) => [name, whole(value as number)])))
    }
  }
}

/** Multiplies without the rounding errors that people do not expect of decimal numbers: 100 × 1.15 is 115. */
function product(a: number, b: number): number {
  return Number((a * b).toPrecision(15))
}

function multipliedRate(rate: string, factor: number): string {
  const [, count, unit] = RATE.exec(rate)!
  const number = product(Number(count), factor)
  // Rates have no exponents, which JavaScript writes below 1e-6 and from 1e21 on; rates that large are out of range anyway.
  return `${number < 1e-6 ? number.toLocaleString('en', { maximumFractionDigits: 20 }) : number}/${unit}`
}

/** Checks the resulting limits too, because they may follow from fields that were not set, such as the burst of a rate. */
function rangeProblem(rule: Rule): string | undefined {
  // The limit of a budget is in billionths, and the budget itself has been checked before.
  if (rule.algorithm === 'cost_budget') return undefined
  for (const { limit } of ruleLimits(rule, false)) {
    for (const [what, value, { min, max }] of rangesOf(limit)) {
      if (!(value >= min && value <= max)) return `the ${what} would be ${value}: expected ${min} to ${max}`
    }
  }
  return undefined
}

function rangesOf(limit: Limit): readonly (readonly [what: string, value: number, form: NumberForm])[] {
  const size = algorithmOf(limit).size(limit)
  if (limit.kind !== BUCKET) return [['limit', size, limit.kind === IN_FLIGHT ? IN_FLIGHT_REQUESTS : TOKENS]]
  return [
    ['rate per second', limit.tokensPerMs * 1000, PER_SECOND],
    ['burst', size, BURST],
  ]
}

const TOKENS = wholeNumber('tokens')

/** The members of `algorithm_config` that an override may change: limits, and nothing that a counter's identity or a cost depends on. */
const SETTABLE_FIELDS: Readonly<Record<Rule['algorithm'], readonly string[]>> = {
  token_bucket: ['rate', 'tokens_per_second', 'burst'],
  fixed_window: ['limit'],
  token_bucket_llm: ['tokens_per_minute', 'tokens_per_day', 'burst_tokens'],
  cost_budget: ['budget'],
  concurrency: ['max_in_flight'],
  unlimited: [],
  block: [],
}

/** Returns the settable fields of one rule. A limit that the rule does not have is not settable, because it would need a new counter. */
export function settableFields({ algorithm, algorithm_config: config }: Rule): readonly string[] {
  const fields = SETTABLE_FIELDS[algorithm]
  if (algorithm !== 'token_bucket_llm') return fields
  const counted = (field: string) => (field === 'tokens_per_day' ? field : 'tokens_per_minute')
  return fields.filter((field) => (config as Record<string, unknown>)[counted(field)] !== undefined)
}

/** Returns the rule with these settable members of its `algorithm_config`. Their values are not checked. */
export function withFields(rule: Rule, fields: Readonly<Record<string, unknown>>): Rule {
  return { ...rule, algorithm_config: { ...baseOf(rule, fields), ...fields } } as Rule
}

/** A bundle has either `rate` or `tokens_per_second`, so setting one drops the other; `tokens_per_second` also needs a burst. */
function baseOf(rule: Rule, fields: Readonly<Record<string, unknown>>): object {
  if (rule.algorithm !== 'token_bucket') return rule.algorithm_config
  const { rate, tokens_per_second, ...others } = rule.algorithm_config
  if (fields.rate !== undefined) return others
  if (fields.tokens_per_second === undefined) return rule.algorithm_config
  return { burst: (tokenBucketLimits(rule.algorithm_config)[0]!.limit as BucketLimit).burst, ...others }
}
