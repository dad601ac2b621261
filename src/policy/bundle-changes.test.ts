import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../test/support/bundles/bundles.ts'
import { CALLERS } from '../../test/support/callers/good-callers.ts'
import { bundleChanges } from './bundle-changes.ts'
import { parseBundle } from './parse.ts'
import type { Bundle } from './schema/bundle.ts'

function parsed(content: object): Bundle {
  const result = parseBundle(JSON.stringify(content), 'json')
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  return result.bundle
}

function changesOf(before: object, after: object) {
  return bundleChanges({ prices: undefined, callers: undefined, ...parsed(before) }, parsed(after))
}

const RULES = [bucketRule('a', [], 1), bucketRule('b', [], 2)]

describe('bundleChanges', () => {
  test('of the same policies written in another order of fields are none', () => {
    const match = { 'header:x-a': '1', 'header:x-b': '2' }
    const turned = { 'header:x-b': '2', 'header:x-a': '1' }
    const { policies, policy_changes } = changesOf(
      bundle(1, policy('p', { rules: [{ ...RULES[0], match }] })),
      bundle(2, policy('p', { rules: [{ match: turned, ...RULES[0] }] })),
    )
    expect([policies, policy_changes]).toEqual([{ added: 0, removed: 0, changed: 0, unchanged: 1 }, []])
  })

  test('of callers are by field, with issuers by name', () => {
    const [okta] = CALLERS.jwt
    const other = { ...okta, name: 'other', issuer: 'b' }
    const before = { ...bundle(1), callers: { mode: 'shadow', jwt: [okta, other] } }
    const after = { ...bundle(2), callers: { mode: 'enforce', jwt: [other, { ...okta, audiences: ['a', 'b'] }] } }
    expect(changesOf(before, after)).toMatchObject({
      callers: true,
      complete: true,
      caller_changes: [
        { field: 'mode', before: 'shadow', after: 'enforce' },
        { field: 'jwt.okta.audiences', before: '["edge"]', after: '["a","b"]' },
      ],
    })
    expect(changesOf(before, { ...before, bundle_version: 2 })).toMatchObject({ callers: false, caller_changes: [] })
    expect(changesOf(bundle(1), { ...bundle(2), callers: { keys: {} } }).caller_changes).toEqual([
      { field: 'keys.from', before: null, after: '["bearer"]' },
    ])
  })

  test('of backends and routes are by field, with routes by index, and credentials are hidden', () => {
    const openai = { url: 'https://a.example', headers: { authorization: 'Bearer {A}', 'x-api-key': 'sk-canary-1', 'x-region': 'eu' } }
    const before = {
      ...bundle(1),
      backends: { 'open.ai': openai },
      routes: [{ match: { bearer: 'sk-canary-3' }, backends: [{ name: 'open.ai' }] }],
    }
    const headers = { authorization: 'Bearer {B}', 'x-api-key': 'sk-canary-2', 'x-region': 'us' }
    const after = {
      ...bundle(2),
      backends: { 'open.ai': { ...openai, headers }, b: { url: 'https://b.example', headers: { 'api-key': 'sk-canary-5' } } },
      routes: [{ match: { bearer: ['sk-canary-4', 'x'] }, backends: [{ name: 'b' }] }, { backends: [{ name: 'open.ai' }] }],
    }
    const changes = changesOf(before, after)
    expect(changes).toMatchObject({ routing: true, complete: true, callers: false })
    expect(changes.routing_changes).toEqual([
      { field: 'backends.open.ai.headers.authorization', before: 'Bearer {A}', after: 'Bearer {B}' },
      { field: 'backends.open.ai.headers.x-api-key', before: 'a hidden text', after: 'a hidden text' },
      { field: 'backends.open.ai.headers.x-region', before: 'eu', after: 'us' },
      { field: 'routes.0.match.bearer', before: '1 hidden pattern', after: '2 hidden patterns' },
      { field: 'routes.0.backends', before: '[{"name":"open.ai","weight":1}]', after: '[{"name":"b","weight":1}]' },
      { field: 'backends.b.url', before: null, after: 'https://b.example' },
      { field: 'backends.b.headers.api-key', before: null, after: 'a hidden text' },
      { field: 'routes.1.backends', before: null, after: '[{"name":"open.ai","weight":1}]' },
      { field: 'routes.1.retry.on', before: null, after: '["connect"]' },
      { field: 'routes.1.retry.attempts', before: null, after: '1' },
    ])
    expect(JSON.stringify(changes)).not.toContain('canary')
    expect(changesOf(before, { ...before, bundle_version: 2 })).toMatchObject({ routing: false, routing_changes: [] })
  })

  test('has the order of rules that both have', () => {
    const { policy_changes } = changesOf(
      bundle(1, policy('p', { rules: [...RULES, bucketRule('gone', [], 3)] })),
      bundle(2, policy('p', { rules: [bucketRule('new', [], 3), ...RULES.toReversed()] })),
    )
    expect(policy_changes[0]!.fields).toEqual([{ field: 'rules', before: '["a","b"]', after: '["b","a"]' }])
    expect(policy_changes[0]!.rules.map(({ kind, rule }) => [kind, rule])).toEqual([
      ['removed', 'gone'],
      ['added', 'new'],
    ])
  })

  test('tell of patterns for credentials only how many there are', () => {
    const matched = (match: object) => policy('p', { rules: [{ ...RULES[0], match }] })
    const changes = changesOf(
      bundle(1, matched({ 'header:Authorization': 'secret', 'cookie:sid': ['secret', 'other'], 'header:x-plan': 'gold' })),
      bundle(2, matched({ 'header:Authorization': 'secret2', bearer: ['secret'], 'header:x-plan': 'red' })),
    )
    expect(changes.policy_changes[0]!.rules[0]!.fields).toEqual([
      { field: 'match.header:Authorization', before: '1 hidden pattern', after: '1 hidden pattern' },
      { field: 'match.cookie:sid', before: '2 hidden patterns', after: null },
      { field: 'match.header:x-plan', before: 'gold', after: 'red' },
      { field: 'match.bearer', before: null, after: '1 hidden pattern' },
    ])
  })

  test('is bounded, and says how much is left out', () => {
    const many = (count: number, burst: number) => Array.from({ length: count }, (_, i) => bucketRule(`r${i}`, [], burst))
    const policies = (burst: number) => Array.from({ length: 10 }, (_, i) => policy(`p${i}`, { rules: many(60, burst) }))
    const { policies: counts, complete, policy_changes } = changesOf(bundle(1, ...policies(1)), bundle(2, ...policies(2)))
    expect([counts.changed, complete]).toEqual([10, false])
    // A rule is a line, and each of its fields one.
    for (const { rules, left_out } of policy_changes) expect([rules.length, left_out]).toEqual([50, 20])
    expect(policy_changes).toHaveLength(5)
    expect(changesOf(bundle(1, policies(1)[0]!), bundle(2, policies(2)[0]!))).toMatchObject({ complete: false, policies: { changed: 1 } })
    const short = (burst: number) => policy('p', { rules: many(50, burst) })
    expect(changesOf(bundle(1, short(1)), bundle(2, short(2)))).toMatchObject({ complete: true, policy_changes: [{ left_out: 0 }] })
  })

  test('shows of a long list the part that differs', () => {
    const hosts = Array.from({ length: 1000 }, (_, i) => `host-${i}.example.com`)
    const { policy_changes } = changesOf(
      bundle(1, policy('p', { selector: { hosts }, rules: [] })),
      bundle(2, policy('p', { selector: { hosts: hosts.with(500, 'other.example.com') }, rules: [] })),
    )
    const { before, after } = policy_changes[0]!.fields[0]!
    expect(before).toContain('"host-500.example.com"')
    expect(after).toContain('"other.example.com"')
    expect(before!.length).toBeLessThan(210)
  })
})

test('a change of wait_seconds is a change of the rule', () => {
  const before = bundle(1, policy('p', { rules: [RULES[0]!] }))
  const after = bundle(2, policy('p', { rules: [{ ...RULES[0], wait_seconds: 5 }] }))
  expect(changesOf(before, after)).toMatchObject({
    policy_changes: [{ rules: [{ rule: 'a', fields: [{ field: 'wait_seconds', before: null, after: '5' }] }] }],
  })
})
