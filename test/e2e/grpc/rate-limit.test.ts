import { describe, expect, test } from 'vitest'
import { bucketRule, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { asking, GRPC, USER } from '../../support/grpc/asking-rate-limit.ts'
import { limitFailure, rateLimitService, sendBytes, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const INVALID_ARGUMENT = 3
const INTERNAL = 13
const UNAVAILABLE = 14

describe('an answer', () => {
  test('has a status for each descriptor, in order, and the fields of a decision for the client', async () => {
    const [client] = await asking(
      rateRule('users', [USER], { rate: '60/minute', burst: 3 }),
      windowRule('plans', ['descriptor:plan'], { limit: 9, period: '1d' }),
    )
    expect(await shouldRateLimit(client, ['plan=free', 'user=al', 'other=x'])).toEqual({
      overall: 'OK',
      statuses: ['OK plans 9/DAY 8 43200s', 'OK users 60/MINUTE 2 1s', 'OK - 0 -'],
      headers: { 'ratelimit-limit': '3', 'ratelimit-remaining': '2', 'ratelimit-reset': '1', ratelimit: '"p";r=2;t=1' },
    })
  })

  test('over the limit says which, until when and why, and nothing was taken', async () => {
    const [client] = await asking(
      rateRule('users', [USER], { rate: '1/second' }),
      windowRule('plans', ['descriptor:plan'], { limit: 9, period: '1d' }),
    )
    await shouldRateLimit(client, ['user=al'])
    expect(await shouldRateLimit(client, ['plan=free', 'user=al'])).toEqual({
      overall: 'OVER_LIMIT',
      statuses: ['OK plans 9/DAY 9 0s', 'OVER_LIMIT users 1/SECOND 0 1s'],
      headers: {
        'retry-after': '1',
        'x-edge-reason': 'token_bucket_exceeded',
        'ratelimit-limit': '1',
        'ratelimit-remaining': '0',
        'ratelimit-reset': '1',
        ratelimit: '"p";r=0;t=1',
      },
    })
  })
})

describe('hits', () => {
  test('are those of the descriptor, else those of the call, else one', async () => {
    const [client] = await asking(windowRule('r', [USER], { limit: 100, period: '1h' }))
    const remaining = async (...call: Parameters<typeof shouldRateLimit> extends [unknown, ...infer Rest] ? Rest : never) =>
      (await shouldRateLimit(client, ...call)).statuses.map((status) => status.split(' ')[3])
    expect(await remaining(['user=a'])).toEqual(['99'])
    expect(await remaining(['user=a'], 'd', 0)).toEqual(['98'])
    expect(await remaining(['user=a'], 'd', 8)).toEqual(['90'])
    expect(await remaining([{ entries: 'user=a', hits: 5 }, 'user=b'], 'd', 8)).toEqual(['85', '92'])
    expect(await remaining([{ entries: 'user=a', hits: 0 }], 'd', 8)).toEqual(['85'])
    expect(await remaining([{ entries: 'user=a', hits: 15, isNegative: true }])).toEqual(['100'])
    expect(await remaining([{ entries: 'user=b', isNegative: true }], 'd', 3)).toEqual(['95'])
  })

  test('charged after the fact drain a budget of tokens, and a question with 0 hits is over then', async () => {
    const [client] = await asking(windowRule('tokens', [USER], { limit: 1000, period: '1d', when_over: 'charge' }))
    const ask = { entries: 'user=a', hits: 0 }
    expect((await shouldRateLimit(client, [ask])).overall).toBe('OK')
    expect((await shouldRateLimit(client, [{ entries: 'user=a', hits: 2500 }])).overall).toBe('OK')
    expect((await shouldRateLimit(client, [ask])).statuses).toEqual(['OVER_LIMIT tokens 1000/DAY 0 43200s'])
  })
})

test('a call that cannot be read as a question fails with status 3', async () => {
  const [client, edge] = await asking(bucketRule('r', [USER], 5))
  const failing: [string, string[], string, string][] = [
    ['without a domain', ['user=a'], '', 'expected a domain that is not empty'],
    ['without descriptors', [], 'd', 'expected at least one descriptor'],
    ['with an entry without a key', ['=a'], 'd', 'expected a key in each entry of a descriptor'],
    ['with 101 descriptors', Array(101).fill('user=a') as string[], 'd', 'expected at most 100 descriptors'],
    ['with 65 entries', [Array(65).fill('user=a').join(' ')], 'd', 'expected at most 64 entries in a descriptor'],
    ['with two entries of one name', ['a=1 a=2 a#2=3'], 'd', 'expected each entry of descriptor 0 only once'],
  ]
  for (const [what, descriptors, domain, details] of failing)
    expect(await limitFailure(client, descriptors, domain), what).toEqual({ code: INVALID_ARGUMENT, details })
  expect(await edge.metric('edge_questions_total{door="rate_limit",outcome="refuse"}')).toBe(failing.length)
  expect(await edge.metric('edge_refused_requests_total{reason="bad_request"}')).toBe(failing.length)
})

test('without a bundle a call fails with status 14, so that the gateway decides', async () => {
  const edge = await running({ env: GRPC })
  expect(await limitFailure(rateLimitService(edge.grpcPort), ['user=a'])).toEqual({ code: UNAVAILABLE, details: 'no_bundle_loaded' })
})

test('calls are counted and logged as other questions are, with the domain as their route', async () => {
  const [client, edge] = await asking(bucketRule('r', [USER], 1))
  for (let i = 0; i < 3; i++) await shouldRateLimit(client, ['user=a'])
  await shouldRateLimit(client, ['x=y'])
  expect(await edge.metric('edge_questions_total{door="rate_limit",outcome="allow"}')).toBe(2)
  expect(await edge.metric('edge_questions_total{door="rate_limit",outcome="reject"}')).toBe(2)
  expect(await edge.metric('edge_decisions_total{action="reject",reason="token_bucket_exceeded",policy="p",route="d"}')).toBe(2)
  expect(await edge.metric('edge_rejects_total{policy="p",rule="r",reason="token_bucket_exceeded"}')).toBe(2)
  expect(await edge.metric('edge_decisions_total{action="allow",reason="all_rules_passed",policy="none",route="none"}')).toBe(1)
  expect(await untilLogged(edge, 'reject')).toMatchObject([{ policy: 'p', rule: 'r', route: 'd', limit_keys: [USER] }])
})

test('a malformed message fails with status 13, as in all services, and harms no other call', async () => {
  const [client] = await asking(bucketRule('r', [USER], 9))
  const [bad, good] = await Promise.all([sendBytes(client, Buffer.from([0x0a, 0xff])), shouldRateLimit(client, ['user=a'])])
  expect([bad, good.overall]).toEqual([INTERNAL, 'OK'])
})
