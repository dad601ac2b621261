import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../../support/bundles/bundles.ts'
import type { Fields } from '../../support/service/http.ts'
import { decideRaw, WIRES } from '../../support/service/raw-decision.ts'
import { edgeWith, expectRefused, lines, REFUSED } from '../../support/service/repeated-fields.ts'
import { running } from '../../support/service/running.ts'

const ALICE = `Bearer ${jwt({ sub: 'alice' })}`

/** Each with the key of the rule that reads it. */
const REPEATED: readonly (readonly [what: string, key: string, fields: Fields])[] = [
  ['a header', 'header:x-key', lines('X-Key', 'a', 'b')],
  ['Authorization', 'header:authorization', lines('Authorization', 'Bearer a', 'x1')],
  ['a token', 'bearer', lines('Authorization', 'Bearer a', 'x1')],
  ['a token with claims', 'jwt:sub', lines('Authorization', ALICE, `Bearer ${jwt({ sub: 'bob' })}`)],
  ['X-ASN-Type', 'ip:type', lines('X-ASN-Type', 'isp', 'hosting')],
  ['X-Tor-Exit', 'ip:tor', lines('X-Tor-Exit', 'no', 'perhaps')],
  ['a cookie', 'cookie:sid', lines('Cookie', 'sid=a; x=1; sid=b')],
]

describe.concurrent.each(WIRES)('a field that a limit is keyed by may not come twice, on %s', (_wire, isLast) => {
  test.for(REPEATED)('%s: 400, and nothing is taken', ([_what, key, fields], t) => expectRefused(t, key, fields, isLast))

  test.for([['a field that no rule reads', 'header:x-key', lines('X-Other', 'a', 'b')]] as const)(
    '%s: no refusal',
    async ([_what, key, fields], t) => {
      const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', [key], 5)] }))
      expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 200, reason: undefined })
      expect(await edge.metric(REFUSED)).toBe(0)
    },
  )

  test('a policy that does not cover the request reads nothing of it', async (t) => {
    const edge = await edgeWith(t, policy('p', { selector: { pathPrefix: '/elsewhere' }, rules: [bucketRule('r', ['header:x-key'], 1)] }))
    const fields = lines('X-Key', 'a', 'b')
    expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 200 })
  })

  test('a shadow policy that reads it is left out, all its rules, and no response changes', async (t) => {
    const shadow = [bucketRule('all', [], 1), bucketRule('mine', ['header:x-key'], 1), bucketRule('team', ['header:x-team'], 1)]
    const edge = await edgeWith(
      t,
      policy('s', { mode: 'shadow', rules: shadow }),
      policy('p', { rules: [bucketRule('r', [], 9)] }),
      policy('other', { mode: 'shadow', rules: [bucketRule('all', [], 1)] }),
    )
    const fields = lines('X-Key', 'a', 'b')
    for (const remaining of ['8', '7', '6']) expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 200, remaining })
    const wouldReject = (id: string): string => `edge_would_reject_total{policy="${id}",rule="all",reason="token_bucket_exceeded"}`
    expect([await edge.metric(wouldReject('s')), await edge.metric(wouldReject('other'))]).toEqual([0, 2])
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-team"}')).toBe(0)
    // With one line it takes part again, and its buckets are as full as they were.
    for (const _ of [1, 2]) await decideRaw(t, edge, '/', [['X-Key', 'a']], isLast)
    expect(await edge.metric(wouldReject('s'))).toBe(1)
  })
})

test.concurrent('a debug session shows the other keys of a request that a shadow policy cannot read', async (t) => {
  const rules = [bucketRule('r', ['header:x-key', 'header:x-team'], 5)]
  const edge = await running(
    {
      bundle: bundle(1, policy('s', { mode: 'shadow', rules }), policy('p', { rules: [bucketRule('q', ['bearer'], 5)] })),
      env: { EDGE_DEBUG_SESSION_SECRET: 'a secret for tests' },
    },
    t,
  )
  const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', 'a secret for tests']])
  const cookie = login.headers['set-cookie']!.split(';')[0]!
  const fields: Fields = [
    ['Cookie', cookie],
    ['X-Key', 'a'],
    ['X-Key', 'b'],
    ['X-Team', 't'],
    ['Authorization', 'bearer tok'],
  ]
  const { status, headers } = await edge.decide({ fields })
  const shown = [1, 2].map((n) => [headers[`x-edge-debug-descriptor-${n}-key`], headers[`x-edge-debug-descriptor-${n}-value`]])
  expect([status, headers['x-edge-debug-matched-policies'], shown]).toEqual([
    200,
    '2',
    [
      ['bearer', 'tok'],
      ['header:x-team', 't'],
    ],
  ])
  expect(headers).not.toHaveProperty('x-edge-debug-descriptor-3-key')
})

test.concurrent('bearer: however the scheme is spelled, a token is one caller', async (t) => {
  const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', ['bearer'], 1)] }))
  const spellings = ['Bearer t', 'bearer t', 'BEARER t', 'Bearer  t', 'Bearer t  ', 'Bearer\tt', ' Bearer \t t']
  const statuses: number[] = []
  for (const value of spellings) statuses.push((await decideRaw(t, edge, '/', [['Authorization', value]], false)).status)
  expect(statuses).toEqual([200, ...spellings.slice(1).map(() => 429)])
  expect((await decideRaw(t, edge, '/', [['Authorization', 'Bearer T']], false)).status).toBe(200)
  for (const value of ['Basic t', 'Bearer', 'Bearer ', 't']) {
    expect((await decideRaw(t, edge, '/', [['Authorization', value]], false)).status).toBe(200)
  }
  expect(await edge.metric('edge_descriptor_missing_total{key="bearer"}')).toBe(4)
})
