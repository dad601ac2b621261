import { describe, expect, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  llmRule,
  matching,
  type PolicyText,
  policy,
  unlimitedRule,
} from '../../../test/support/bundles/bundles.ts'
import { formatProblem } from '../../text/problem.ts'
import { parseBundle } from '../parse.ts'
import type { Policy } from '../schema/bundle.ts'
import { findEscapes } from './escapes.ts'

const byTeam = bucketRule('team', ['header:x-team'], 1)
const byAddress = bucketRule('address', ['ip:address'], 1)
const elseByAddress = matching('else', byAddress)
const present = matching({ 'header:X-Team': '*' }, byTeam)

describe('a limit that clients escape by leaving out its key is warned of', () => {
  test('with the lines that mend it', () => {
    const recipe =
      '{ "name": "others", "match": "else", "limit_keys": ["ip:address"], "algorithm": "token_bucket", "algorithm_config": { "rate": "10/minute" } }'
    const pass = 'If such clients may pass, add { "name": "others", "match": "else", "algorithm": "unlimited" } instead'
    expect(warningsOf(policy('p', { rules: [byTeam] }))).toEqual([
      `policies[0].spec.rules[0].limit_keys: a client that leaves out header:x-team is not limited: write "match": { "header:x-team": "*" } here, and add the rule ${recipe}. ${pass}`,
    ])
    expect(warningsOf(policy('p', { rules: [present] }))).toEqual([
      `policies[0].spec.rules[0].limit_keys: a client that leaves out header:x-team is not limited: add the rule ${recipe}. ${pass}`,
    ])
    const named = bucketRule('others', ['header:x-team'], 1)
    expect(warningsOf(policy('p', { rules: [named, byTeam] }))).toEqual([expect.stringContaining('add the rule { "name": "others-2", ')])
    expect(warningsOf(policy('p', { rules: [present, elseByAddress] }))).toEqual([])
  })

  test.each(['bearer', 'jwt:org.id', 'header:authorization', 'query:q', 'cookie:sid', 'llm:model'])('if the key is %s', (key) => {
    expect(escapesOf(policy('p', { rules: [bucketRule('r', [key], 1)] }))).toEqual([`[0].spec.rules[0]: ${key}`])
    expect(escapesOf(policy('p', { rules: [bucketRule('r', [key, 'ip:address'], 1)] }))).toEqual([`[0].spec.rules[0]: ${key}`])
  })

  test.each(['ip:address', 'ip:country', 'ip:type', 'ip:tor', 'path:1', 'context:route'])('but not if it is %s', (key) => {
    expect(escapesOf(policy('p', { rules: [bucketRule('r', [key], 1)] }))).toEqual([])
  })

  test('for every algorithm, once for each policy, with all keys of the rule', () => {
    const rules = [llmRule('tokens', ['bearer', 'llm:model'], { tokens_per_minute: 1000 }), concurrencyRule('five', ['cookie:sid'], 5, 60)]
    expect(escapesOf(policy('p', { rules: [rules[1]!] }), policy('q', { rules }))).toEqual([
      '[0].spec.rules[0]: cookie:sid',
      '[1].spec.rules[0]: bearer or llm:model',
    ])
  })

  test.each<[string, object]>([
    ['tokens', llmRule('b', ['header:x-team'], { tokens_per_minute: 1000 })],
    ['money', budgetRule('b', ['header:x-team'], { budget: 5, cost: { header: 'x-cost', default: 1 } })],
  ])('for a budget of %s in spite of limits on requests, which it does not take part in', (_, budget) => {
    const place = 'policies[0].spec.rules[1].limit_keys: a client that leaves out header:x-team escapes this budget: write "match": '
    expect(warningsOf(policy('p', { rules: [byAddress, budget] }), policy('q', { rules: [byAddress] }))).toEqual([
      expect.stringContaining(place),
    ])
    const requestsOnly = [matching({ 'header:x-team': '*' }, budget), elseByAddress]
    expect(warningsOf(policy('p', { rules: requestsOnly }))).toEqual([
      'policies[0].spec.rules[0].limit_keys: a client that leaves out header:x-team escapes this budget: replace the rule "address" by { "name": "address", "match": "else", "algorithm": "block" }',
    ])
    const other = llmRule('all', [], { tokens_per_minute: 100_000 })
    expect(warningsOf(policy('p', { rules: [byAddress, budget, other] }))).toEqual([])
    expect(warningsOf(policy('p', { rules: [byAddress, budget] }), policy('q', { rules: [other] }))).toEqual([])
    expect(warningsOf(policy('p', { rules: [matching({ 'header:x-team': '*' }, budget), blockRule('b2', 'else')] }))).toEqual([])
    // A budget for everybody limits requests, too.
    expect(warningsOf(policy('p', { rules: [byTeam, other] }))).toEqual([])
  })

  test.each<[string, object[]]>([
    ['a second rule with another key that may be left out', [byTeam, bucketRule('key', ['bearer'], 1)]],
    ['a rule for some addresses', [byTeam, matching({ 'ip:address': '10.*' }, byAddress)]],
    ['an exemption of some addresses', [byTeam, unlimitedRule('probes', { 'ip:address': '10.*' })]],
    ['a block of some', [byTeam, blockRule('b', { 'header:x-org': 'evil' })]],
    ['a block of all that ends', [byTeam, blockRule('b', undefined, { expires_at: '2099-01-01T00:00:00Z' })]],
    ['a match on another header', [matching({ 'header:x-plan': 'pro' }, byTeam)]],
    ['a match on the address', [matching({ 'ip:address': '*' }, byTeam)]],
    ['a match on one value of the key', [matching({ 'header:x-team': 'acme' }, byTeam)]],
    ['a match on the key, in any case', [present]],
  ])('in spite of %s', (_, rules) => {
    expect(escapesOf(policy('p', { selector: { pathPrefix: '/v1' }, rules }))).toEqual(['[0].spec.rules[0]: header:x-team'])
  })

  test.each<[string, object]>([
    ['another claim of the token', { 'jwt:plan': 'pro' }],
    ['the token, which may be no JWT', { bearer: '*' }],
    ['the whole field', { 'header:authorization': '*' }],
  ])('in spite of a match on %s', (_, match) => {
    expect(escapesOf(policy('p', { rules: [matching(match, bucketRule('user', ['jwt:sub'], 1))] }))).toEqual(['[0].spec.rules[0]: jwt:sub'])
  })

  test('if an else has a key that may be left out, with what mends that', () => {
    const rules = [matching({ 'ip:country': 'DE' }, byTeam), matching('else', bucketRule('others', ['bearer'], 1))]
    expect(warningsOf(policy('p', { rules }))).toEqual([
      'policies[0].spec.rules[1].limit_keys: a client that leaves out bearer is not limited: write "limit_keys": ["ip:address"] here',
    ])
  })

  test('with what a terminal would obey shown as its code', () => {
    const [warning] = warningsOf(policy('p', { rules: [bucketRule('r', ['query:a\u202e"'], 1)] }))
    expect(warning).toContain('leaves out query:a\\u{202e}" is not limited: write "match": { "query:a\\u202e\\"": "*" } here')
  })
})

describe('it is not warned of', () => {
  test.each<[string, object[]]>([
    ['a rule by address', [byTeam, byAddress]],
    ['a rule for everybody', [byTeam, bucketRule('all', [], 1)]],
    ['a rule for all addresses', [byTeam, matching({ 'ip:address': ['10.*', '*'] }, byAddress)]],
    ['an else by address', [matching({ 'ip:country': 'DE' }, byTeam), elseByAddress]],
    ['a block of all others', [present, blockRule('b', 'else')]],
    ['an else that exempts all others', [matching({ 'ip:country': 'DE' }, byTeam), unlimitedRule('u', 'else')]],
  ])('beside %s', (_, rules) => {
    expect(escapesOf(policy('p', { rules }))).toEqual([])
  })

  test('in shadow mode, nor in a domain', () => {
    expect(escapesOf(policy('p', { mode: 'shadow', rules: [byTeam] }))).toEqual([])
    expect(escapesOf(policy('p', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 1)] }))).toEqual([])
  })
})

describe('another policy that limits those who leave out the key', () => {
  type Selector = Parameters<typeof policy>[1]['selector']

  test.each<[string, Selector, Selector[]]>([
    ['covers all', { pathPrefix: '/v1', hosts: ['a.example'], methods: ['POST'] }, [undefined]],
    ['covers a path above', { pathPrefix: '/v1/chat' }, [{ pathPrefix: '/v1/' }]],
    ['excepts another path', { pathPrefix: '/v1' }, [{ exceptPaths: ['/health'] }]],
    ['covers its methods, in any case', { methods: ['post'] }, [{ methods: ['GET', 'POST'] }]],
    ['and a third cover its methods', { methods: ['GET', 'POST'] }, [{ methods: ['GET'] }, { methods: ['POST'] }]],
    ['covers its host, in another spelling', { hosts: ['API.example.com:443'] }, [{ hosts: ['api.example.com'] }]],
    ['covers all names above its hosts', { hosts: ['a.b.example.com', '*.b.example.com'] }, [{ hosts: ['*.example.com'] }]],
    [
      'and others cover pairs of its hosts and methods',
      { hosts: ['a.example', 'b.example'], methods: ['GET', 'PUT'] },
      [{ hosts: ['a.example'] }, { hosts: ['b.example'], methods: ['GET'] }, { methods: ['PUT'] }],
    ],
  ])('%s', (_, selector, others) => {
    const limited = others.map((other, i) => policy(`q${i}`, { ...(other && { selector: other }), rules: [byAddress] }))
    expect(escapesOf(policy('p', { ...(selector && { selector }), rules: [byTeam] }), ...limited)).toEqual([])
  })

  test.each<[string, Partial<Parameters<typeof policy>[1]>]>([
    ['is in shadow mode', { mode: 'shadow' }],
    ['covers a path below', { selector: { pathPrefix: '/v1/chat' } }],
    ['covers the path alone', { selector: { pathExact: '/v1' } }],
    ['excepts the path', { selector: { exceptPaths: ['/v1'] } }],
    ['covers another method', { selector: { methods: ['GET'] } }],
    ['covers another host', { selector: { hosts: ['example.com', '*.a.example.com'] } }],
    ['exempts all others, which says nothing about this one', { rules: [unlimitedRule('u', 'else')] }],
    ['limits only those who send it', { rules: [present] }],
  ])('is not enough if it %s', (_, other) => {
    const selector = { pathPrefix: '/v1', methods: ['POST'], hosts: ['a.example.com'] }
    const escapes = escapesOf(policy('p', { selector, rules: [byTeam] }), policy('q', { rules: [byAddress], ...other }))
    expect(escapes).toContain('[0].spec.rules[0]: header:x-team')
  })

  test('is not enough if only some of the requests have such hosts or methods', () => {
    const other = policy('q', { selector: { hosts: ['a.example'], methods: ['GET'] }, rules: [byAddress] })
    expect(escapesOf(policy('p', { rules: [byTeam] }), other)).toEqual(['[0].spec.rules[0]: header:x-team'])
  })
})

test('many thousands of policies are looked at only so far', () => {
  const spec = (pathPrefix: string, rule: object) => ({ mode: 'enforce', selector: { pathPrefix }, rules: [rule] })
  const policies = Array.from({ length: 4000 }, (_, i) => [
    policy(`p${i}`, spec(`/a/b/c/${i}`, byTeam)),
    policy(`q${i}`, spec(`/x/${i}`, byAddress)),
  ])
  const escapes = [...findEscapes(policies.flat() as unknown as Policy[])]
  expect(escapes).toHaveLength(375) // 3,000,000 steps, for each policy two with each of 4,000 others
})

test('long paths and hosts are compared with fewer policies', () => {
  const others = Array.from({ length: 300 }, (_, i) =>
    policy(`q${i}`, { mode: 'enforce', rules: [byAddress], selector: { hosts: [`q${i}`] } }),
  )
  const found = (selector: object): number => {
    const escaped = Array.from({ length: 20 }, (_, i) => policy(`p${i}`, { mode: 'enforce', selector, rules: [byTeam] }))
    return [...findEscapes([...escaped, ...others] as unknown as Policy[])].length
  }
  expect(found({ pathPrefix: '/v1', hosts: ['a.example'] })).toBe(20)
  expect(found({ pathPrefix: `/${'v'.repeat(8000)}` })).toBe(9)
  expect(found({ hosts: Array.from({ length: 5 }, (_, i) => `${'a.'.repeat(120)}h${i}`) })).toBe(0)
})

function warningsOf(...policies: PolicyText[]): string[] {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  return parsed.warnings.map(formatProblem)
}

/** Where limits are escaped, and without which keys. */
function escapesOf(...policies: PolicyText[]): string[] {
  return warningsOf(...policies).flatMap((text) => {
    const [, path, keys] =
      /^policies(.*)\.limit_keys: a client that leaves out (.*) (?:is not limited|escapes this budget): /.exec(text) ?? []
    return path === undefined ? [] : [`${path}: ${keys}`]
  })
}
