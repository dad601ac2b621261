import { describe, expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  bundle,
  llmRule,
  matching,
  type PolicyText,
  policy,
  unlimitedRule,
} from '../../../test/support/bundles/bundles.ts'
import { formatProblem } from '../../text/problem.ts'
import { parseBundle } from '../parse.ts'

describe('names that come twice refuse the bundle', () => {
  test('policy ids, each repetition pointing at the first', () => {
    const empty = { rules: [] }
    expect(review(policy('a', empty), policy('b', empty), policy('a', empty), policy('a', empty)).problems).toEqual([
      'policies[2].id: "a" is already used by policies[0].id',
      'policies[3].id: "a" is already used by policies[0].id',
    ])
  })

  test('rule names of one policy, but not those of two', () => {
    const rules = [bucketRule('r', [], 1), bucketRule('s', [], 1), llmRule('r', [], { tokens_per_day: 5000 })]
    expect(review(policy('a', { rules }), policy('b', { rules: rules.slice(0, 2) })).problems).toEqual([
      'policies[0].spec.rules[2].name: "r" is already used by policies[0].spec.rules[0].name',
    ])
  })

  test('but not those that differ in case or white space', () => {
    const rules = ['r', 'R', 'r '].map((name) => bucketRule(name, [], 1))
    expect(review(policy('a', { rules }), policy('A', { rules })).problems).toEqual([])
  })
})

describe('a selector with hosts and methods', () => {
  const names = (count: number, prefix: string): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`)
  const selected = (hosts: number, methods: number) =>
    review(policy('a', { selector: { hosts: names(hosts, 'h'), methods: names(methods, 'M') }, rules: [] })).problems

  test('may pair ten thousand of them, and not one more', () => {
    expect(selected(100, 100)).toEqual([])
    expect(selected(10_001, 1)).toEqual([
      'policies[0].spec.selector: expected at most 10000 pairs of a host and a method, got 10001: split it into several policies',
    ])
  })
})

test('a small budget of tokens in a domain is not warned of: its tokens are the hits of calls', () => {
  const rules = [llmRule('r', ['descriptor:user'], { tokens_per_minute: 10, tokens_per_day: 20 })]
  expect(review(policy('a', { selector: { domain: 'd' }, rules }))).toEqual({ problems: [], warnings: [] })
})

test('a * inside a pattern is warned of in the descriptors of a selector too', () => {
  const selector = { domain: 'd', descriptors: { 'descriptor:plan': ['fr*e', 'pro*'] } }
  expect(review(policy('a', { selector, rules: [bucketRule('r', [], 1)] })).warnings).toEqual([
    'policies[0].spec.selector.descriptors["descriptor:plan"]: only a * at the end stands for any text',
  ])
})

describe('a budget that can never cover one request is warned of', () => {
  const prefix = 'policies[0].spec.rules[0].algorithm_config: a request without max_tokens reserves'

  test.each([
    [
      { tokens_per_minute: 999 },
      `${prefix} 1000 tokens (the default without max_completion_tokens), more than tokens_per_minute (999) can ever hold: it is always rejected`,
    ],
    [
      { tokens_per_day: 999 },
      `${prefix} 1000 tokens (the default without max_completion_tokens), more than tokens_per_day (999) can ever hold: it is always rejected`,
    ],
    [
      { tokens_per_minute: 9000, burst_tokens: 50, max_completion_tokens: 51 },
      `${prefix} 51 tokens (max_completion_tokens), more than burst_tokens (50) can ever hold: it is always rejected`,
    ],
    [
      { tokens_per_day: 5000, burst_tokens: 50 },
      'policies[0].spec.rules[0].algorithm_config: burst_tokens has no effect without tokens_per_minute',
    ],
  ])('%j', (config, warning) => {
    const reviewed = review(policy('p', { rules: [llmRule('r', [], config)] }))
    expect(reviewed).toEqual({ problems: [], warnings: [warning] })
  })

  test('each of two budgets on its own', () => {
    const rules = [llmRule('r', [], { tokens_per_minute: 10, tokens_per_day: 20, max_completion_tokens: 30 })]
    expect(review(policy('p', { rules })).warnings).toHaveLength(2)
  })

  test.each([
    { tokens_per_minute: 1000 },
    { tokens_per_day: 1000 },
    { tokens_per_minute: 10, burst_tokens: 1000 },
    { tokens_per_minute: 5, tokens_per_day: 5, max_completion_tokens: 5 },
  ])('and one that just covers it is not: %j', (config) => {
    expect(review(policy('p', { rules: [llmRule('r', [], config)] }))).toEqual({ problems: [], warnings: [] })
  })
})

describe('a limit that callers choose for themselves is warned of', () => {
  const place = 'policies[0].spec.rules[0].match'
  const tokens = 'the signature is not checked here, so let the gateway verify the token first, or add callers.jwt'
  const header = 'let the gateway set the header, and clear what clients send; or verify callers, and match caller:<label>'
  const tier = bucketRule('r', [], 1)

  test.each([
    [
      unlimitedRule('r', { 'jwt:plan': 'staff' }),
      `${place}["jwt:plan"]: a client that sends this value itself can escape the limits: ${tokens}`,
    ],
    [matching({ 'jwt:plan': 'pro' }, tier), `${place}["jwt:plan"]: a client that sends this value itself can choose its limit: ${tokens}`],
    [
      matching({ 'header:X-Plan': 'pro' }, tier),
      `${place}["header:X-Plan"]: a client that sends this value itself can choose its limit: ${header}`,
    ],
    [
      unlimitedRule('r', { 'header:x-plan': 'a' }),
      `${place}["header:x-plan"]: a client that sends this value itself can escape the limits: ${header}`,
    ],
    [
      matching({ 'query:plan': 'pro' }, tier),
      `${place}["query:plan"]: a client that sends this value itself can choose its limit: let the gateway set the parameter, and clear what clients send; or verify callers, and match caller:<label>`,
    ],
    [
      matching({ 'cookie:plan': 'pro' }, tier),
      `${place}["cookie:plan"]: a client that sends this value itself can choose its limit: let the gateway check the cookie, and clear what clients send; or verify callers, and match caller:<label>`,
    ],
  ])('%j', (rule, warning) => {
    expect(review(policy('p', { rules: [rule] }))).toEqual({ problems: [], warnings: [warning] })
  })

  test.each([
    matching({ bearer: 'secret' }, tier),
    unlimitedRule('r', { 'ip:address': '192.0.2.1' }),
    blockRule('r', { 'jwt:org': 'acme', 'header:x-org': 'acme' }),
    tier,
  ])('and no other: %j', (rule) => {
    expect(review(policy('p', { rules: [rule] }))).toEqual({ problems: [], warnings: [] })
  })
})

describe('a rule or an exception that does not do what it seems to is warned of', () => {
  const rules = [bucketRule('r', [], 1)]

  test.each([
    [
      policy('p', { rules: [matching({ bearer: 'a*b' }, rules[0]!)] }),
      'spec.rules[0].match.bearer: only a * at the end stands for any text',
    ],
    [
      policy('p', { rules: [matching('else', rules[0]!)] }),
      'spec.rules[0].match: no other rule of the policy has a match: the rule applies to every request',
    ],
    [
      policy('p', { rules: [{ name: 'u', algorithm: 'unlimited' }] }),
      'spec.rules[0]: unlimited without match has no effect: name in match whom no limit applies to',
    ],
    [
      policy('p', { rules: [blockRule('b', undefined)] }),
      'spec.rules[0]: a block without match and selector rejects every request: name in match whom to block',
    ],
    [
      policy('p', { mode: 'shadow', rules: [blockRule('b', { bearer: 'x' }, { cut_streams: true })] }),
      'spec.rules[0].algorithm_config.cut_streams: a policy in shadow mode cuts no stream',
    ],
    [
      policy('p', { selector: { pathPrefix: '/api', exceptPaths: ['/apix'] }, rules }),
      'spec.selector.exceptPaths[0]: it has no effect: the policy does not cover this path anyway',
    ],
    [
      policy('p', { selector: { pathPrefix: '/api/v1', exceptPaths: ['//%61pi/'] }, rules }),
      'spec.selector.exceptPaths[0]: the policy covers nothing: "//%61pi/" excepts all of it',
    ],
    [
      policy('p', { selector: { pathExact: '/api', exceptPaths: ['/api/x'] }, rules }),
      'spec.selector.exceptPaths[0]: it has no effect: the policy does not cover this path anyway',
    ],
    [
      policy('p', { selector: { exceptPaths: ['/health/*'] }, rules }),
      'spec.selector.exceptPaths[0]: a * in a path is a literal *, not any text: write "/health", and pathPrefix covers everything below it',
    ],
  ])('%j', (given, warning) => {
    expect(review(given)).toEqual({ problems: [], warnings: [`policies[0].${warning}`] })
  })
})

test('a block for all who use a path is nothing to warn of', () => {
  const given = policy('p', { selector: { pathPrefix: '/old' }, rules: [blockRule('b', undefined)] })
  expect(review(given)).toEqual({ problems: [], warnings: [] })
})

test('the segments of excepted paths count among those of a bundle', () => {
  const exceptPaths = Array.from({ length: 260 }, (_, i) => `/${i}${'/a'.repeat(3999)}`)
  expect(review(policy('p', { selector: { exceptPaths }, rules: [] })).problems).toEqual([
    'policies: expected at most 1000000 segments in the paths of all selectors, got 1040000',
  ])
})

function review(...policies: PolicyText[]): { problems: string[]; warnings: string[] } {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  return { problems: parsed.ok ? [] : parsed.problems.map(formatProblem), warnings: parsed.warnings.map(formatProblem) }
}
