import { expect, test } from 'vitest'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import { tokenCounts } from '../llm/usage.ts'
import { HOLD } from './request-costs.ts'

test('a request is one, whatever number is given with the question', () => {
  expect([1, 0.5, 7].map((given) => HOLD.of(requestFacts({ given, isGiven: true })))).toEqual([1, 1, 1])
})

test('a question at no cost holds nothing, and leaves nothing to release', () => {
  const facts = requestFacts({ given: 0, isGiven: true })
  expect([HOLD.of(facts), HOLD.settling!.applies(facts)]).toEqual([0, false])
})

test('it is released at the end, whatever was used, and whether or not a body was read', () => {
  const { settling } = HOLD
  expect(settling!.at).toBe('end')
  expect(settling!.applies(requestFacts())).toBe(true)
  const tokens = tokenCounts(10, 20)
  expect((['nothing', 'unknown', { tokens, isStreamed: true }] as const).map((usage) => settling!.settled(1, usage))).toEqual([0, 0, 0])
})

test('it needs no body and is never pre-fetched', () => {
  expect(HOLD).toMatchObject({ needsBody: false, isLeasable: false })
})
