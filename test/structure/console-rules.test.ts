import { expect, test } from 'vitest'
import { isCredential as isShownAsDigest } from '../../console/caller-values.ts'
import { readAsked } from '../../console/callers/read-asked.ts'
import { settableFields as offeredFields } from '../../console/rules/settable-fields.ts'
import { settableFields } from '../../src/policy/change-check.ts'
import { isCredential, KEY_KINDS, parseDescriptorKey } from '../../src/policy/descriptor-key.ts'
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
  'llm:key',
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

/** An example of each form of a key. */
const KEYS = Object.values(KEY_KINDS).flatMap(({ forms }) => forms.map((form) => form.replace('<1 to 32>', '2').replace(/<.*>/, 'name')))

test.each(KEYS)('the page takes %s=value for a key and its value', (key) => {
  expect(parseDescriptorKey(key)?.text).toBe(key)
  expect(readAsked(` ${key}=a b=c `)).toEqual({ values: { [key]: 'a b=c' } })
})

test.each([
  ['acme', { value: 'acme' }],
  ['c2VjcmV0Cg==', { value: 'c2VjcmV0Cg==' }],
  ['x-api-key=acme', { value: 'x-api-key=acme' }],
  ['http://a.example/?q=1', { value: 'http://a.example/?q=1' }],
  ['Header:X-Api-Key=Acme', { values: { 'header:x-api-key': 'Acme' } }],
  ['JWT:Sub=a', { values: { 'jwt:Sub': 'a' } }],
  ['header:x-k=müller', { values: { 'header:x-k': 'm\xc3\xbcller' } }],
  ['jwt:sub=müller  header:x-k=a  b', { values: { 'jwt:sub': 'müller', 'header:x-k': 'a  b' } }],
  ['descriptor:a=', { values: { 'descriptor:a': '' } }],
])('the page reads %j as it was meant', (typed, asked) => {
  expect(readAsked(typed)).toEqual(asked)
})
