import { expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy } from '../../../test/support/bundles/bundles.ts'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { readCallerQuestion } from './caller-question.ts'
import { type ConcernedRules, concernedSteps } from './concerned-rules.ts'

const KEYS = Array.from({ length: 32 }, (_, i) => `header:k${i}`)

test('an else with many keys takes no more steps than one with few, and tells which of them the value may be', () => {
  const others = Array.from({ length: 500 }, (_, i) =>
    matching({ [KEYS[i % 8]!]: `v${i}`, 'header:other': 'x' }, bucketRule(`r${i}`, [], 1)),
  )
  // Under each of the first two keys, a rule of its own takes the value.
  const takers = [0, 1].map((i) => matching({ [KEYS[i]!]: 'asked' }, bucketRule(`taker${i}`, [], 1)))
  const rules = [...others, ...takers, matching('else', bucketRule('rest', KEYS, 1))]
  const [found, steps] = searched(rules, { value: 'asked' })
  expect(found.incomplete.map(({ rule, mayBe, missing }) => [rule.name, mayBe, missing])).toEqual([['rest', KEYS.slice(2), KEYS]])
  expect(found.complete.map(({ rule }) => rule.name)).toEqual(['taker0', 'taker1'])
  expect(steps).toBeLessThanOrEqual(4 * rules.length + 1)
})

test('an else all of whose keys are taken by other rules does not concern the value', () => {
  const keys = KEYS.slice(0, 2)
  const rules = [
    ...keys.map((key, i) => matching({ [key]: 'asked' }, bucketRule(`r${i}`, [], 1))),
    matching('else', bucketRule('rest', keys, 1)),
  ]
  const [found] = searched(rules, { value: 'asked' })
  expect([found.complete.map(({ rule }) => rule.name), found.incomplete]).toEqual([['r0', 'r1'], []])
})

function searched(rules: readonly object[], body: Readonly<Record<string, unknown>>): [ConcernedRules, number] {
  const steps = concernedSteps(
    planOf(bundle(1, policy('p', { rules }))),
    readCallerQuestion(body, () => 'digest'),
    0,
  )
  let count = 0
  for (;;) {
    const step = steps.next()
    count++
    if (step.done) return [step.value, count]
  }
}
