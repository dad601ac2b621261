import { expect, test } from 'vitest'
import { parseBundle } from '../parse.ts'

const LIMIT = { algorithm: 'fixed_window', algorithm_config: { limit: 5, period: '1h' } }

function problems(selector: object | undefined, ...rules: object[]): string[] {
  const named = rules.map((rule, r) => ({ name: `r${r}`, limit_keys: [], ...LIMIT, ...rule }))
  const bundle = { bundle_version: 1, policies: [{ id: 'p', spec: { selector, rules: named } }] }
  const parsed = parseBundle(JSON.stringify(bundle))
  return parsed.ok ? [] : parsed.problems.map(({ path, message }) => `${path}: ${message}`)
}

const DOMAIN = { domain: 'edge' }
const KEYED = { limit_keys: ['descriptor:user'] }
const SPEC = 'policies[0].spec'

test('a domain with descriptor keys is accepted', () => {
  expect(problems(DOMAIN, KEYED, { match: { 'descriptor:plan': ['free', 'pro*'] } }, { match: 'else', ...KEYED })).toEqual([])
  expect(problems({ ...DOMAIN, descriptors: { 'descriptor:plan': 'free' } }, {}, { match: 'else' })).toEqual([])
})

test.each([[{ pathPrefix: '/' }], [{ pathExact: '/a' }], [{ exceptPaths: ['/a'] }], [{ methods: ['GET'] }], [{ hosts: ['a.example'] }]])(
  'a domain beside %j is refused',
  (member) => {
    expect(problems({ ...DOMAIN, ...member }, KEYED)).toEqual([
      `${SPEC}.selector: expected domain without pathPrefix, pathExact, exceptPaths, methods and hosts: calls of the rate limit service have none of them, got an object`,
    ])
  },
)

test('descriptors without a domain are refused', () => {
  expect(problems({ descriptors: { 'descriptor:a': 'b' } })).toEqual([
    `${SPEC}.selector.descriptors: expected a domain beside it: only calls of the rate limit service have descriptors, got an object`,
  ])
})

test('a domain is a short text', () => {
  for (const domain of ['', 'a\n', 7, 'x'.repeat(257)]) expect(problems({ domain }, KEYED)).toHaveLength(1)
})

test('descriptor keys without a domain are refused, in limit_keys and match', () => {
  const message = (key: string) => `expected a selector with a domain for "${key}": other requests have no descriptors`
  expect(problems(undefined, KEYED, { match: { 'descriptor:plan': 'free' } })).toEqual([
    `${SPEC}.rules[0].limit_keys[0]: ${message('descriptor:user')}`,
    `${SPEC}.rules[1].match["descriptor:plan"]: ${message('descriptor:plan')}`,
  ])
})

test('other keys with a domain are refused, wherever they are', () => {
  const message = (key: string) =>
    `expected descriptor:<name> in a policy with a domain, got "${key}": calls of the rate limit service have only descriptors`
  const selector = { ...DOMAIN, descriptors: { bearer: 'x' } }
  expect(problems(selector, { limit_keys: ['header:x-key'], match: { 'ip:country': 'DE' } })).toEqual([
    `${SPEC}.selector.descriptors.bearer: ${message('bearer')}`,
    `${SPEC}.rules[0].match["ip:country"]: ${message('ip:country')}`,
    `${SPEC}.rules[0].limit_keys[0]: ${message('header:x-key')}`,
  ])
})

test('algorithms that calls give no meaning to are refused', () => {
  expect(problems(DOMAIN, { ...KEYED, algorithm: 'concurrency', algorithm_config: { max_in_flight: 1 } })).toEqual([
    `${SPEC}.rules[0].algorithm: "concurrency" has no domain: nobody reports the end of a request; use fixed_window or token_bucket`,
  ])
  const budget = { budget: 5, period: '1d', cost: { header: 'x-cost', default: 1 } }
  expect(problems(DOMAIN, { ...KEYED, algorithm: 'cost_budget', algorithm_config: budget })).toEqual([
    `${SPEC}.rules[0].algorithm: "cost_budget" has no domain: hits are whole numbers, not money; use fixed_window with when_over: charge`,
  ])
})

test.each([
  ['cost', { algorithm_config: { limit: 5, period: '1h', cost: 2 } }, 'the call itself states how many hits it takes'],
  [
    'max_completion_tokens',
    { algorithm: 'token_bucket_llm', algorithm_config: { tokens_per_day: 5, max_completion_tokens: 5 } },
    'the hits of a call are its tokens',
  ],
  [
    'streaming',
    { algorithm: 'token_bucket_llm', algorithm_config: { tokens_per_day: 5, streaming: {} } },
    'the hits of a call are its tokens',
  ],
])('%s is refused with a domain', (name, rule, why) => {
  expect(problems(DOMAIN, { ...KEYED, ...rule })).toEqual([
    `${SPEC}.rules[0].algorithm_config.${name}: expected none in a policy with a domain: ${why}`,
  ])
})

test('a block that cuts streams is refused with a domain', () => {
  const block = { match: { 'descriptor:a': 'b' }, algorithm: 'block', algorithm_config: { cut_streams: true } }
  expect(problems(DOMAIN, block)).toEqual([
    `${SPEC}.rules[0].algorithm_config.cut_streams: expected none in a policy with a domain: it ends no streams`,
  ])
  expect(problems(DOMAIN, { ...block, algorithm_config: { cut_streams: false } })).toEqual([])
})

test('a rule without keys is refused: it covers no descriptor', () => {
  const message = `${SPEC}.rules[0]: it covers no descriptor: name the keys of one in limit_keys or match`
  expect(problems(DOMAIN, {})).toEqual([message])
  expect(problems(DOMAIN, { match: 'else' }, KEYED)).toEqual([message])
  expect(problems(DOMAIN, { match: 'else' }, { match: { 'descriptor:a': 'b' } })).toEqual([])
})

test('a misspelled key is suggested', () => {
  expect(problems(DOMAIN, { limit_keys: ['descriptors:user'] })[0]).toContain('did you mean "descriptor:user"?')
})

test('wait_seconds is refused in a policy with a domain', () => {
  expect(problems(DOMAIN, { ...KEYED, wait_seconds: 5 })).toEqual([
    `${SPEC}.rules[0].wait_seconds: expected none in a policy with a domain: its calls are answered at once`,
  ])
})
