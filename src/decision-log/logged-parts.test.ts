import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { Matches } from '../policy/index/routes.ts'
import type { PlanPolicy } from '../policy/plan.ts'
import { MatchedParts } from './logged-parts.ts'

/** Of each policy. A rule has at most 32. */
const FIELDS = 4 * 25
const POLICIES = 12
const plan = planOf(
  bundle(
    1,
    ...Array.from({ length: POLICIES }, (_, p) =>
      policy(`p${p}`, { rules: [0, 25, 50, 75].map((first) => bucketRule(`r${first}`, fieldsOf(p).slice(first, first + 25), 1)) }),
    ),
  ),
)

function fieldsOf(index: number): string[] {
  return Array.from({ length: FIELDS }, (_, i) => `header:x-${index}-${i}`)
}

function matches(indexes: readonly number[]): Matches<PlanPolicy> {
  const found = new Matches<PlanPolicy>()
  for (const index of indexes) found.add(plan.policies[index]!)
  return found
}

test('what a set of policies reads is worked out once', () => {
  const parts = new MatchedParts(plan)
  const first = parts.of(matches([1]))
  const both = parts.of(matches([1, 11]))
  expect(first.headers).toHaveLength(FIELDS)
  expect(both.headers).toHaveLength(2 * FIELDS)
  expect(parts.of(matches([1]))).toBe(first)
  expect(parts.of(matches([1, 11]))).toBe(both)
})

test('of very many sets not all are kept, and each has its own parts', () => {
  const parts = new MatchedParts(plan)
  const first = parts.of(matches([0]))
  const sets = Array.from({ length: 200 }, (_, n) => Array.from({ length: POLICIES }, (_, i) => i).filter((i) => (2 + 20 * n) & (1 << i)))
  expect(sets.map((indexes) => parts.of(matches(indexes)).headers.length)).toEqual(sets.map((indexes) => indexes.length * FIELDS))
  expect(parts.of(matches([0]))).not.toBe(first)
  expect(parts.of(matches([0]))).toEqual(first)
})
