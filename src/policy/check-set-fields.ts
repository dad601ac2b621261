import type { z } from 'zod'
import { formatProblem, show } from './problem.ts'
import { blockConfig } from './schema/block.ts'
import { concurrencyConfig } from './schema/concurrency.ts'
import { costBudgetConfig } from './schema/cost-budget.ts'
import { fixedWindowConfig } from './schema/fixed-window.ts'
import { tokenBucketConfig } from './schema/token-bucket.ts'
import { tokenBucketLlmConfig } from './schema/token-bucket-llm.ts'
import { unlimitedConfig } from './schema/unlimited.ts'
import type { Rule } from './schema.ts'
import { describeIssue } from './schema-issue.ts'
import { settableFields, withFields } from './settable-fields.ts'
import { closest } from './suggest.ts'

const CONFIGS: Readonly<Record<Rule['algorithm'], z.ZodType>> = {
  token_bucket: tokenBucketConfig,
  fixed_window: fixedWindowConfig,
  token_bucket_llm: tokenBucketLlmConfig,
  cost_budget: costBudgetConfig,
  concurrency: concurrencyConfig,
  unlimited: unlimitedConfig,
  block: blockConfig,
}

/** What is wrong with limits that an operator sets for a rule, each problem in a sentence; none: they are what a bundle could say. */
export function checkSetFields(rule: Rule, fields: unknown): string[] {
  const known = settableFields(rule)
  if (known.length === 0) return [`set: a rule with algorithm ${rule.algorithm} has no limits to set: use unlimited or block`]
  const expected = `expected ${known.join(', ')}`
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return [`set: ${expected}, got ${show(fields)}`]
  const names = Object.keys(fields)
  if (names.length === 0) return [`set: ${expected}, but it is empty`]
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) return unknown.slice(0, MAX_PROBLEMS).map((name) => `set: ${expected}, got ${show(name)}${hint(name, known)}`)
  const { algorithm_config: config } = withFields(rule, fields as Record<string, unknown>)
  const result = CONFIGS[rule.algorithm].safeParse(config)
  if (result.success) return []
  return result.error.issues
    .slice(0, MAX_PROBLEMS)
    .flatMap((issue) => describeIssue(issue, config))
    .map((problem) => `set.${formatProblem(problem)}`)
}

const MAX_PROBLEMS = 10

function hint(name: string, known: readonly string[]): string {
  const meant = closest(name, known)
  return meant === undefined ? '' : ` — did you mean ${show(meant)}?`
}
