import { afterEach, expect, test, vi } from 'vitest'
import { bucketRule, bundle, matching, policy } from '../../../test/support/bundles/bundles.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { compileBundle } from '../compile.ts'
import { parseBundle } from '../parse.ts'
import { Patterns } from '../patterns.ts'
import type { Plan, PlanRule } from '../plan.ts'
import type { KeySetRule } from './domain-index.ts'

afterEach(() => vi.restoreAllMocks())

const RULES = sized(500, 5000)

function planOf(...rules: object[]): Plan {
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { selector: { domain: 'd' }, rules }))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

/** The names of the rules that are found for a descriptor, and how many patterns were tried for it. */
function found(plan: Plan, names: readonly string[], values: readonly string[]): { rules: string[]; tried: number } {
  const cover = vi.spyOn(Patterns.prototype, 'cover')
  const rules: KeySetRule<PlanRule>[] = []
  plan.domains.get('d')!.find(names)?.find(values, rules)
  return { rules: rules.map(({ rule }) => rule.name), tried: cover.mock.calls.length }
}

test('of very many rules for one value each, one is tried, whichever key the value is of', () => {
  const plan = planOf(
    ...Array.from({ length: RULES }, (_, i) => matching({ 'descriptor:a': 'same', 'descriptor:b': `v${i}` }, bucketRule(`r${i}`, [], 1))),
  )
  // Two conditions each. The first rule could not know which key tells the others apart.
  for (const i of [1, RULES / 2, RULES - 1]) {
    const { rules, tried } = found(plan, ['a', 'b'], ['same', `v${i}`])
    expect(rules).toEqual([`r${i}`])
    expect(tried).toBeLessThanOrEqual(4)
    vi.restoreAllMocks()
  }
})

test('of very many rules with other keys none is tried', () => {
  const plan = planOf(...Array.from({ length: RULES }, (_, i) => bucketRule(`r${i}`, [`descriptor:k${i}`], 1)))
  expect(found(plan, ['k77'], ['x'])).toEqual({ rules: ['r77'], tried: 0 })
  expect(found(plan, ['none'], ['x'])).toEqual({ rules: [], tried: 0 })
})

test('rules are found in bundle order, however they are indexed', () => {
  const plan = planOf(
    matching({ 'descriptor:b': 'y' }, bucketRule('by b', ['descriptor:a'], 1)),
    bucketRule('any', ['descriptor:a', 'descriptor:b'], 1),
    matching({ 'descriptor:a': ['w', 'x'] }, bucketRule('by a', ['descriptor:b'], 1)),
    matching({ 'descriptor:a': 'x*' }, bucketRule('by prefix', ['descriptor:b'], 1)),
  )
  expect(found(plan, ['a', 'b'], ['x', 'y']).rules).toEqual(['by b', 'any', 'by a', 'by prefix'])
})

test('a key that has the separator in it is one key', () => {
  const plan = planOf(bucketRule('two', ['descriptor:a', 'descriptor:b'], 1))
  expect(found(plan, ['a\0b'], ['x']).rules).toEqual([])
  expect(found(plan, ['a', 'b'], ['x', 'y']).rules).toEqual(['two'])
})
