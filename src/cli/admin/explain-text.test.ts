import { describe, expect, test } from 'vitest'
import type {
  ExplainedCandidateJson,
  ExplainedCounterJson,
  ExplainedPolicyJson,
  ExplainedRuleJson,
  ExplanationJson,
} from '../../admin/api/types.ts'
import { explainText } from './explain-text.ts'

const BUCKET: ExplainedCounterJson = { kind: 'bucket', level: 0.25, limit: 5, remaining: 0, reset_s: 4.75, wait_s: 0.75 }

const PER_KEY: ExplainedRuleJson = {
  name: 'per-key',
  applied: true,
  why: null,
  match_else: false,
  instead: null,
  cost: 1,
  descriptors: [{ key: 'header:x-api-key', value: 'alice' }],
  counters: [BUCKET],
  override: null,
}

const REJECTED: ExplanationJson = {
  action: 'reject',
  status: 429,
  reason: 'token_bucket_exceeded',
  policy: 'api',
  rule: 'per-key',
  headers: { 'Retry-After': '1' },
  caller: null,
  policies: [
    { id: 'api', mode: 'enforce', matched: true, why: null, rules: [PER_KEY] },
    { id: 'admin', mode: 'enforce', matched: false, why: 'path', rules: [] },
  ],
}

const REFUSED: ExplanationJson = {
  action: 'refuse',
  status: 400,
  reason: '',
  policy: null,
  rule: null,
  headers: {},
  caller: null,
  policies: [],
}

const CANDIDATE: ExplainedCandidateJson = {
  name: 'a',
  fallback: false,
  weight: 1,
  model: null,
  state: 'healthy',
  reason: null,
  cooling_until: null,
  share: 0.25,
}

describe('an explanation of a route in words', () => {
  const ALLOWED: ExplanationJson = { ...REFUSED, action: 'allow', status: 200, reason: 'all_rules_passed' }

  test('says which backends are next, and how the others are', () => {
    const candidates: ExplainedCandidateJson[] = [
      CANDIDATE,
      { ...CANDIDATE, name: 'b', share: 0.75, model: 'm\u001b' },
      { ...CANDIDATE, name: 'c', share: 0, weight: 0 },
      { ...CANDIDATE, name: 'd', share: 0, state: 'probing', reason: '5xx' },
      { ...CANDIDATE, name: 'e', share: 0, fallback: true, weight: 0 },
    ]
    const text = explainText('GET /', { ...ALLOWED, backend: { route: 3, sticky: false, candidates } })
    expect(text).toContain(
      `
Where it goes by routes[3]:
  a  is next with a probability of 25 %
  b  is next with a probability of 75 %, gets model m\\u{1b}
  c  gets nothing (weight 0)
  d  one request at a time tries it (5xx)
  e  fallback
`,
    )
  })

  test('says that it stays with a backend, that none can be asked now, or that no route covers it', () => {
    const sticky = {
      route: 0,
      sticky: true,
      candidates: [
        { ...CANDIDATE, share: 1 },
        { ...CANDIDATE, name: 'b', share: 0 },
      ],
    }
    expect(explainText('GET /', { ...ALLOWED, backend: sticky })).toContain(
      '\nWhere it goes by routes[0], and stays with one backend (stick_to):\n  a  is next\n  b  only if another one fails\n',
    )
    const held = [{ ...CANDIDATE, share: 0, state: 'cooling' as const, reason: '429', cooling_until: '2026-01-01T00:00:00.000Z' }]
    expect(explainText('GET /', { ...ALLOWED, backend: { route: 0, sticky: false, candidates: held } })).toContain(
      '  a  cools until 2026-01-01T00:00:00.000Z (429)\n  All of them cool, and another request tries one: 503 backends_cooling.\n',
    )
    const nowhere = { route: null, sticky: false, candidates: [] }
    expect(explainText('GET /', { ...ALLOWED, backend: nowhere })).toContain('\nNo route covers it: EDGE_BACKEND_URL gets it.\n')
    const refused = explainText('GET /', { ...REFUSED, status: 404, reason: 'no_route', backend: nowhere })
    expect(refused).toContain(
      'refused with 404 no_route\nThe bundle has routes, none of them covers it, and there is no EDGE_BACKEND_URL.\n',
    )
    expect(refused).not.toContain('gets it')
    expect(explainText('GET /', { ...REFUSED, reason: 'model_not_replaceable' })).toContain('\nIts route replaces the model, and')
  })
})

describe('an explanation in words', () => {
  test('says how the reservation of a stream grows', () => {
    const rule: ExplainedRuleJson = {
      ...PER_KEY,
      cost: 2100,
      grows_by: 1000,
      counters: [{ ...BUCKET, kind: 'day', level: 9000, remaining: 9000, limit: 9000 }],
    }
    const policies: ExplainedPolicyJson[] = [{ id: 'api', mode: 'enforce', matched: true, why: null, rules: [rule] }]
    expect(explainText('POST /v1', { ...REJECTED, action: 'allow', status: 200, reason: 'ok', policies })).toContain(
      'per-key: takes 2,100 tokens, and asks for 1,000 more completion tokens at a time while its stream runs\n',
    )
    const money = [{ ...BUCKET, kind: 'budget', level: 800, remaining: 800, limit: 1000, reserved: 150 } as const]
    const growing = [{ ...policies[0]!, rules: [{ ...rule, cost: 209, counters: money }] }]
    const text = explainText('POST /v1', { ...REJECTED, action: 'allow', status: 200, reason: 'ok', policies: growing })
    expect(text).toContain(
      'per-key: takes 2.09 currency units, and asks for 1,000 more completion tokens at a time while its stream runs\n',
    )
    expect(text).toContain('8.00 of 10.00 left of the budget, 1.50 reserved by requests in flight, full again in')
  })

  test('says who rejects the request, for whom, what is left and when it would pass', () => {
    expect(explainText('GET /api', REJECTED)).toBe(`GET /api: rejected with 429 token_bucket_exceeded
Rule per-key of policy api rejects it.
header:x-api-key=alice has 0 of 5 left, and this request takes 1. It would pass in 1 s.

Response headers:
  Retry-After: 1

Policies that cover it:
  api
    per-key: takes 1
      header:x-api-key  alice
      bucket            0 of 5 left, full again in 5 s; not enough

Policies that do not cover it:
  admin  its path does not match
`)
  })

  test('says when waiting does not help', () => {
    const text = explainText('POST /', withRule({ ...PER_KEY, cost: 9, counters: [{ ...BUCKET, wait_s: null }] }))
    expect(text).toContain('takes 9. That is more than the limit can ever hold: waiting does not help.')
  })

  test('does not make up a cost that is not known', () => {
    const text = explainText('GET /', withRule({ ...PER_KEY, cost: null }))
    expect(text).toContain('has 0 of 5 left, and this request takes an unknown amount. It would pass in 1 s.')
    expect(text).toContain('    per-key: takes an unknown amount\n')
  })

  test('says who shares a limit without keys', () => {
    const text = explainText('GET /', withRule({ ...PER_KEY, descriptors: [] }))
    expect(text).toContain('\nAll callers together have 0 of 5 left, and this request takes 1.')
  })

  test('does not say of which of several fields there is more than one', () => {
    const descriptors = [
      { key: 'header:x-a', value: null },
      { key: 'header:x-b', value: null },
    ]
    const text = explainText('GET /', withRule({ ...PER_KEY, applied: false, why: 'repeated_descriptor', counters: [], descriptors }))
    expect(text).toContain('does not apply, one of header:x-a, header:x-b occurs more than once in the request\n')
  })

  test('names the override that blocks a caller', () => {
    const text = explainText('GET /', { ...withRule({ ...PER_KEY, counters: [], override: 'abc' }), status: 403, reason: 'blocked' })
    expect(text).toContain('header:x-api-key=alice is blocked by override abc.')
    expect(text).toContain('override          abc, see edge override --list')
  })

  test('money is in units of the currency', () => {
    const budget: ExplainedCounterJson = { kind: 'budget', level: 12, limit: 5000, remaining: 12, reset_s: 7200, wait_s: 7200 }
    const text = explainText('POST /', withRule({ ...PER_KEY, cost: 40.5, counters: [budget] }))
    expect(text).toContain('has 0.12 of 50.00 left of the budget, and this request takes 0.405 currency units. It would pass in 2 h.')
  })

  test('an allowed request: which limit is closest', () => {
    const counters = [{ ...BUCKET, level: 3, remaining: 3, wait_s: 0 }]
    const text = explainText('GET /', { ...withRule({ ...PER_KEY, counters }), action: 'allow', status: 200, reason: 'all_rules_passed' })
    expect(text).toMatch(/^GET \/: allowed\nClosest to its limit is rule per-key of policy api: 3 of 5 left\.\n/)
  })

  test('an allowed request that no rule limits', () => {
    const allowed: ExplanationJson = { ...REFUSED, action: 'allow', status: 200, reason: 'no_match' }
    expect(explainText('GET /', allowed)).toBe('GET /: allowed\nNo rule limits it.\n\nNo policy covers this request.\n')
  })

  test('what a shadow policy would reject', () => {
    const shadow: ExplanationJson = { ...withRule(PER_KEY), action: 'allow', status: 200 }
    const text = explainText('GET /', { ...shadow, policies: [{ ...shadow.policies[0]!, mode: 'shadow' }] })
    expect(text).toContain(`GET /: allowed
Rule per-key of policy api would reject it, but this policy is in shadow mode.
header:x-api-key=alice has 0 of 5 left, and this request takes 1. It would pass in 1 s.
`)
    expect(text).toContain('  api (shadow: rejects nothing)\n')
  })

  test('what would be rejected if anything was enforced', () => {
    const text = explainText('GET /', { ...withRule(PER_KEY), action: 'allow', status: 200 })
    expect(text).toContain('Rule per-key of policy api would reject it, but nothing is enforced now, see edge status.\n')
  })

  test('requests in flight end at a time that nobody knows', () => {
    const counter: ExplainedCounterJson = { kind: 'in_flight', level: 0, limit: 2, remaining: 0, reset_s: 60, wait_s: 1 }
    const text = explainText('GET /', withRule({ ...PER_KEY, counters: [counter] }))
    expect(text).toContain(
      'has 0 of 2 more requests in flight allowed, and this request takes 1. It would pass when one of the others ends.',
    )
  })

  test.each([
    ['no_bundle_loaded', 'No bundle is active'],
    ['store_unavailable', 'Redis is unreachable'],
    ['missing_original_host', 'give --host'],
    ['repeated_descriptor', 'more than once'],
    ['unknown_caller', 'only verified callers'],
    ['something_new', 'not a limit'],
  ])('a request that is refused for %s', (reason, part) => {
    const text = explainText('GET /', { ...REFUSED, reason })
    expect(text).toMatch(new RegExp(`^GET /: refused with 400 ${reason}\\n`))
    expect(text).toContain(part)
  })

  test.each([
    ['missing_descriptor', 'the request has no header:x-api-key'],
    ['repeated_descriptor', 'the request has more than one header:x-api-key'],
    ['no_match', 'its match does not fit this request; this one has no header:x-api-key'],
  ])('a rule that does not apply: %s', (why, part) => {
    const rule = { ...PER_KEY, applied: false, why, counters: [], descriptors: [{ key: 'header:x-api-key', value: null }] }
    expect(explainText('GET /', withRule(rule))).toContain(`    per-key: does not apply, ${part}\n`)
  })

  test('a rule that lacks an address says how to give one', () => {
    const descriptors = [{ key: 'ip:address', value: null }]
    const rule = { ...PER_KEY, applied: false, why: 'missing_descriptor', counters: [], descriptors }
    const way = "give its address with -H 'X-Forwarded-For: ADDRESS'"
    expect(explainText('GET /', withRule(rule))).toContain(`    per-key: does not apply, the request has no ip:address: ${way}\n`)
    expect(explainText('GET /', withRule({ ...rule, applied: true, why: null }))).toContain(`ip:address  missing: ${way}\n`)
  })

  test('a rule that does not apply although the request has all its keys', () => {
    const rule = { ...PER_KEY, applied: false, why: 'no_match', counters: [], descriptors: [{ key: 'header:x-api-key', value: 'a' }] }
    expect(explainText('GET /', withRule(rule))).toContain('    per-key: does not apply, its match does not fit this request\n')
  })

  test('who the caller is, or why nobody knows', () => {
    const known = { id: 'okta:ada', labels: { team: 'blue\u001b' }, problem: null }
    expect(explainText('GET /', { ...REFUSED, caller: known })).toContain('\nIts caller is okta:ada: team=blue\\u{1b}.\n')
    const unknown = { id: null, labels: {}, problem: 'audience' }
    expect(explainText('GET /', { ...REFUSED, caller: unknown })).toContain(
      '\nIts caller is not known: its token is for another audience (audience).\n',
    )
  })

  test('of many policies that do not cover the request it names some', () => {
    const other: ExplainedPolicyJson = { id: '', mode: 'enforce', matched: false, why: 'host', rules: [] }
    const others = Array.from({ length: 10_000 }, (_, i) => ({ ...other, id: `p${i}` }))
    const lines = explainText('GET /', { ...REJECTED, policies: others }).split('\n')
    expect(lines.filter((line) => line.endsWith('its host does not match'))).toHaveLength(20)
    expect(lines).toContain('  and 9,980 more policies; --json lists all')
  })
})

function withRule(rule: ExplainedRuleJson): ExplanationJson {
  return { ...REJECTED, policies: [{ id: 'api', mode: 'enforce', matched: true, why: null, rules: [rule] }] }
}

describe('a request that would wait', () => {
  test('is said to, with the time after which it would pass', () => {
    const text = explainText('GET /', { ...REJECTED, wait: { seconds: 1, up_to_seconds: 5 } })
    expect(text.split('\n').slice(0, 2)).toEqual([
      'GET /: rejected with 429 token_bucket_exceeded',
      'Before that, it waits for up to 5 s (wait_seconds), and would pass in 1 s if nobody waits ahead of it.',
    ])
  })

  test('for requests in flight is not told when', () => {
    const text = explainText('GET /', { ...REJECTED, wait: { seconds: null, up_to_seconds: 0.5 } })
    expect(text).toContain('Before that, it waits for up to 0.5 s (wait_seconds).\n')
  })
})
