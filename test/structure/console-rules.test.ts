import { expect, test } from 'vitest'
import { isCredential as isShownAsDigest } from '../../console/caller-values.ts'
import { settableFields as offeredFields } from '../../console/rules/settable-fields.ts'
import { settableFields } from '../../src/policy/change-check.ts'
import { isCredential } from '../../src/policy/descriptor-key.ts'
import type { Rule } from '../../src/policy/schema/bundle.ts'
import {
  blockRule,
  bucketRule,
  budgetRule,
  concurrencyRule,
  llmRule,
  rateRule,
  unlimitedRule,
  windowRule,
} from '../support/bundles/bundles.ts'

/** The page writes a rate in the way in which the bundle has it; the API takes both. */
test.each([
  [bucketRule('r', [], 10, 1), ['rate']],
  [rateRule('r', [], { rate: '10/minute' }), ['tokens_per_second']],
  [windowRule('r', [], { limit: 10, period: '1h' }), []],
  [llmRule('r', [], { tokens_per_minute: 10 }), []],
  [llmRule('r', [], { tokens_per_day: 10 }), []],
  [llmRule('r', [], { tokens_per_minute: 10, tokens_per_day: 100, burst_tokens: 5 }), []],
  [budgetRule('r', [], { budget: 5, prices: 'list' }), []],
  [concurrencyRule('r', [], 5), []],
  [unlimitedRule('r', {}), []],
  [blockRule('r'), []],
] as const)('the page offers what an override can set, for %j', (rule, withheld) => {
  const offered = offeredFields(rule as Parameters<typeof offeredFields>[0])
  expect([...offered, ...withheld].sort()).toEqual([...settableFields(rule as Rule)].sort())
})

test.each([
  'bearer',
  'header:authorization',
  'header:proxy-authorization',
  'header:cookie',
  'cookie:sid',
  'header:x-k',
  'jwt:sub',
  'ip:address',
  'descriptor:cookie:',
])('the page knows whether values of %s are credentials', (key) => {
  expect(isShownAsDigest(key)).toBe(isCredential(key))
})
