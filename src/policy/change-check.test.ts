import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  llmRule,
  policy,
  rateRule,
  windowRule,
} from '../../test/support/bundles/bundles.ts'
import { compiledRule } from '../../test/support/bundles/compiled-rule.ts'
import { runs } from '../../test/support/run/property-runs.ts'
import { formatProblem } from '../text/problem.ts'
import { changedLimits, settableFields, withFields } from './change-check.ts'
import { parseBundle } from './parse.ts'
import type { Rule } from './schema/bundle.ts'

const RULES: readonly Rule[] = [
  bucketRule('r', [], 10, 2),
  rateRule('r', [], { rate: '60/minute' }),
  windowRule('r', [], { limit: 10, period: '1d' }),
  llmRule('r', [], { tokens_per_minute: 100, tokens_per_day: 1000, burst_tokens: 50 }),
  concurrencyRule('r', [], 3),
  budgetRule('r', [], { budget: 10, cost: { header: 'x-cost', default: 1 } }),
].map((rule) => compiledRule(rule).source)

const EDGES = [0, 1, 1.5, 1e-6, 1e-7, 1e-9, 1e-10, 1e6, 1e6 + 1, 9e6, 9e6 + 1, 999_999_999_999_999, 1e15, 2 ** 53]
const RATES = ['1/second', '100/min', '1e3/second', '0/second', '1000000000000000/second', '0.0000000001/second', '100 per hour', '7', ' ']

const value = fc.oneof(
  fc.constantFrom(...EDGES, ...RATES),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.jsonValue(),
)

const change = fc.constantFrom(...RULES).chain((rule) => {
  const fields = fc.dictionary(fc.constantFrom(...settableFields(rule)), value, { minKeys: 1, noNullPrototype: true })
  return fields.map((some) => [rule, some] as const)
})

test('an override may set what a bundle may say, and is refused with the same sentences', () => {
  fc.assert(
    fc.property(change, ([rule, fields]) => {
      const said = bundleProblems(withFields(rule, fields))
      const changed = changedLimits(rule, { kind: 'set', fields })
      // A limit that follows from what is set is out of range.
      if (said.length === 0 && typeof changed === 'string' && changed.startsWith('the burst would be')) return
      if (said.length === 0) expect(changed).toEqual(withFields(rule, fields))
      else expect(changed).toBe(said.map((problem) => `set.${problem}`).join('; '))
    }),
    { numRuns: runs(200) },
  )
})

/** What a bundle with this rule is refused with: each sentence once, without the path to the limits. */
function bundleProblems(rule: Rule): readonly string[] {
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [rule] }))))
  if (parsed.ok) return []
  const path = 'policies[0].spec.rules[0].algorithm_config.'
  return [...new Set(parsed.problems.map((problem) => formatProblem(problem).replace(path, '')))]
}
