import { expect, test } from 'vitest'
import { bucketRule } from '../../../test/support/bundles/bundles.ts'
import { compiledRule } from '../../../test/support/bundles/compiled-rule.ts'
import { CallerDigester } from '../../store/caller-digester.ts'
import { RuleOverrides, subjectDigest, type Variant } from './rule-overrides.ts'

const RULE = compiledRule(bucketRule('r', ['header:x-a', 'bearer'], 10))
const ALWAYS = { fromMs: 0, toMs: Number.POSITIVE_INFINITY }

function variant(): Variant {
  return { ...ALWAYS } as Variant
}

test('overrides of callers are found by values and by digest until they are removed, and leave nothing behind', () => {
  const digest = new CallerDigester([1, 2])
  const callerDigest = (values: readonly string[]): string => digest.of(values)
  const overrides = new RuleOverrides(RULE, callerDigest)
  const [all, one, other] = [variant(), variant(), variant()]
  overrides.add(all, [])
  overrides.add(one, ['x', callerDigest(['token'])])
  const found = (...values: string[]) => [overrides.find(values, 1), overrides.findByDigest(subjectDigest(RULE, values, callerDigest), 1)]
  expect(found('x', 'token').every((each) => each === one)).toBe(true)
  overrides.add(other, ['x', callerDigest(['token two'])])
  expect(found('x', 'token two').every((each) => each === other)).toBe(true)
  overrides.remove(one, ['x', callerDigest(['token'])])
  expect(found('x', 'token').every((each) => each === all)).toBe(true)
  expect(found('x', 'token two').every((each) => each === other)).toBe(true)
  overrides.remove(other, ['x', callerDigest(['token two'])])
  overrides.remove(all, [])
  expect([...found('x', 'token two'), overrides.isEmpty]).toEqual([undefined, undefined, true])
})

test('digests are those of the key that a fleet has now', () => {
  const digest = new CallerDigester([1, 2])
  const callerDigest = (values: readonly string[]): string => digest.of(values)
  const rule = compiledRule(bucketRule('r', ['header:x-a'], 10))
  const overrides = new RuleOverrides(rule, callerDigest)
  const one = variant()
  overrides.add(one, ['x'])
  expect(overrides.findByDigest(subjectDigest(rule, ['x'], callerDigest), 1)).toBe(one)
  digest.useKey([3, 4])
  expect(overrides.findByDigest(subjectDigest(rule, ['x'], callerDigest), 1)).toBe(one)
})
