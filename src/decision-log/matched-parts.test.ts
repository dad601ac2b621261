import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import type { PlanPolicy } from '../policy/plan.ts'
import { Matches } from '../policy/routes.ts'
import { MatchedParts } from './matched-parts.ts'

const FIELDS = 400
const POLICIES = 12
const plan = planOf(
  bundle(
    1,
    ...Array.from({ length: POLICIES }, (_, p) =>
      policy(`p${p}`, { rules: Array.from({ length: FIELDS }, (_, r) => bucketRule(`r${r}`, [`header:x-${p}-${r}`], 1)) }),
    ),
  ),
)

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
  for (let bits = 2; bits < 2 ** POLICIES; bits += 97) {
    const indexes = Array.from({ length: POLICIES }, (_, i) => i).filter((i) => bits & (1 << i))
    expect(parts.of(matches(indexes)).headers).toHaveLength(indexes.length * FIELDS)
  }
  expect(parts.of(matches([0]))).not.toBe(first)
  expect(parts.of(matches([0]))).toEqual(first)
})
