import { expect, test } from 'vitest'
import { parseBundle } from './parse.ts'
import type { Rule } from './schema/bundle.ts'
import { statedLimits } from './stated-limit.ts'

function stated(algorithm: string, algorithm_config: object): string[] {
  const rule = { name: 'r', limit_keys: [], algorithm, algorithm_config }
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies: [{ id: 'p', spec: { rules: [rule] } }] }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return statedLimits(parsed.bundle.policies[0]!.spec.rules[0] as Rule).map(({ count, unit }) => `${count}/${unit}`)
}

test.each([
  ['100/second', '100/second'],
  ['60/minute', '60/minute'],
  ['7/day', '7/day'],
  ['2.5/second', '2/second'],
  ['0.5/minute', '30/hour'],
  ['0.01/day', '3/year'],
])('a rate of %s is stated as %s', (rate, text) => {
  expect(stated('token_bucket', { rate })).toEqual([text])
})

test.each([
  [10, '10/second'],
  [0.5, '30/minute'],
  [1 / 60, '1/minute'],
  [1 / 3600, '1/hour'],
  [1 / 86_400, '1/day'],
  [1e-9, '1/year'],
])('%d tokens per second are stated as %s', (tokens_per_second, text) => {
  expect(stated('token_bucket', { tokens_per_second, burst: 5 })).toEqual([text])
})

test.each([
  ['1m', '100/minute'],
  ['1h', '100/hour'],
  ['1d', '100/day'],
  ['1w', '100/week'],
  ['1mo', '100/month'],
  ['1y', '100/year'],
  ['5m', '20/minute'],
  ['12h', '8/hour'],
  ['3mo', '1/day'],
])('100 in %s are stated as %s', (period, text) => {
  expect(stated('fixed_window', { limit: 100, period })).toEqual([text])
})

test('LLM tokens are stated by their counters', () => {
  expect(stated('token_bucket_llm', { tokens_per_minute: 5, tokens_per_day: 7 })).toEqual(['5/minute', '7/day'])
  expect(stated('token_bucket_llm', { tokens_per_day: 7 })).toEqual(['7/day'])
})

test('rules without counters state nothing', () => {
  expect([stated('unlimited', {}), stated('block', {})]).toEqual([[], []])
})
