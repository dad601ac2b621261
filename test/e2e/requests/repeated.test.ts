import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, jwt, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import { type RawAnswer, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'

const REFUSED = 'edge_refused_requests_total{reason="repeated_descriptor"}'
const ALICE = `Bearer ${jwt({ sub: 'alice' })}`

/** Each with the key of the rule that reads it. */
const REPEATED: readonly (readonly [what: string, key: string, fields: Fields])[] = [
  ['a header', 'header:x-key', lines('X-Key', 'a', 'b')],
  ['a header in two spellings', 'header:x-key', [...lines('X-Key', 'a'), ...lines('x-KEY', 'b')]],
  ['a header twice with one value', 'header:x-key', lines('X-Key', 'a', 'a')],
  ['a header whose second line is empty', 'header:x-key', lines('X-Key', 'a', '')],
  ['a header whose lines are all empty', 'header:x-key', lines('X-Key', '', '')],
  ['a header of three lines, far apart', 'header:x-key', [...lines('X-Key', 'a', 'b'), ...lines('A', '1', '2'), ...lines('X-Key', 'c')]],
  ['Authorization', 'header:authorization', lines('Authorization', 'Bearer a', 'x1')],
  ['a token', 'bearer', lines('Authorization', 'Bearer a', 'x1')],
  ['a token behind another scheme', 'bearer', [...lines('Authorization', 'Basic YTpi'), ...lines('authorization', 'Bearer a')]],
  ['two words behind one scheme', 'bearer', lines('Authorization', 'Bearer a x1')],
  ['two tokens in one line', 'bearer', lines('Authorization', 'Bearer a, Bearer b')],
  ['a token with claims', 'jwt:sub', lines('Authorization', ALICE, `Bearer ${jwt({ sub: 'bob' })}`)],
  ['a token with claims and a line with a dot in it', 'jwt:sub', lines('Authorization', ALICE, 'x.y')],
  ['a token with claims and a word with a dot in it', 'jwt:sub', lines('Authorization', `${ALICE} x.y`)],
  ['X-ASN-Type', 'ip:type', lines('X-ASN-Type', 'isp', 'hosting')],
  ['X-Tor-Exit', 'ip:tor', lines('X-Tor-Exit', 'no', 'perhaps')],
  ['a cookie', 'cookie:sid', lines('Cookie', 'sid=a; x=1; sid=b')],
  ['a cookie on two lines', 'cookie:sid', lines('Cookie', 'sid=a', 'sid="a"')],
]

/** A connection that is to be closed is for the slow wire. */
const WIRES = [
  ['the fast wire', false],
  ['the slow wire', true],
] as const

describe.concurrent.each(WIRES)('a field that a limit is keyed by may not come twice, on %s', (_wire, isLast) => {
  test.for(REPEATED)('%s: 400, and nothing is taken', async ([_what, key, fields], t) => {
    const edge = await edgeWith(
      t,
      policy('other', { rules: [bucketRule('all', [], 9)] }),
      policy('p', { rules: [bucketRule('r', [key], 1)] }),
    )
    for (let i = 0; i < 3; i++) expect(await decide(t, edge, fields, isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
    expect(await edge.metric(REFUSED)).toBe(3)
    // The rule of the other policy is as it was: this request is its first.
    expect((await edge.decide()).headers['ratelimit-remaining']).toBe('8')
  })

  test('a rule that lacks another of its keys refuses too: nobody can switch the check off by leaving something out', async (t) => {
    const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', ['header:x-team', 'header:x-key'], 1)] }))
    const fields = lines('X-Key', 'a', 'b')
    expect(await decide(t, edge, fields, isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-team"}')).toBe(0)
  })

  test.for([
    ['a field that no rule reads', 'header:x-key', lines('X-Other', 'a', 'b')],
    ['a field with a comma in it', 'header:x-key', lines('X-Key', 'a, b')],
    ['lines of X-Forwarded-For', 'ip:address', lines('X-Forwarded-For', '203.0.113.7', '10.0.0.1')],
    ['lines of X-Forwarded-For as a key', 'header:x-forwarded-for', lines('X-Forwarded-For', 'a', 'b')],
    ['lines of Cookie', 'header:cookie', lines('Cookie', 'a=1', 'b=2')],
    ['another cookie', 'cookie:sid', lines('Cookie', 'a=1; sid=s', 'a=2')],
  ] as const)('%s: no refusal', async ([_what, key, fields], t) => {
    const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', [key], 5)] }))
    expect(await decide(t, edge, fields, isLast)).toMatchObject({ status: 200, reason: undefined })
    expect(await edge.metric(REFUSED)).toBe(0)
  })

  test('a policy that does not cover the request reads nothing of it', async (t) => {
    const edge = await edgeWith(t, policy('p', { selector: { pathPrefix: '/elsewhere' }, rules: [bucketRule('r', ['header:x-key'], 1)] }))
    const fields = lines('X-Key', 'a', 'b')
    expect(await decide(t, edge, fields, isLast)).toMatchObject({ status: 200 })
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
    for (const remaining of ['8', '7', '6']) expect(await decide(t, edge, fields, isLast)).toMatchObject({ status: 200, remaining })
    const wouldReject = (id: string): string => `edge_would_reject_total{policy="${id}",rule="all",reason="token_bucket_exceeded"}`
    expect([await edge.metric(wouldReject('s')), await edge.metric(wouldReject('other'))]).toEqual([0, 2])
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-team"}')).toBe(0)
    // With one line it takes part again, and its buckets are as full as they were.
    for (const _ of [1, 2]) await decide(t, edge, [['X-Key', 'a']], isLast)
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
  for (const value of spellings) statuses.push((await decide(t, edge, [['Authorization', value]], false)).status)
  expect(statuses).toEqual([200, ...spellings.slice(1).map(() => 429)])
  expect((await decide(t, edge, [['Authorization', 'Bearer T']], false)).status).toBe(200)
  for (const value of ['Basic t', 'Bearer', 'Bearer ', 't']) {
    expect((await decide(t, edge, [['Authorization', value]], false)).status).toBe(200)
  }
  expect(await edge.metric('edge_descriptor_missing_total{key="bearer"}')).toBe(4)
})

function edgeWith(t: TestContext, ...policies: readonly PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock: new ManualClock() }, t)
}

/** So many lines of one field. */
function lines(name: string, ...values: readonly string[]): Fields {
  return values.map((value) => [name, value] as const)
}

interface Told {
  readonly status: number
  readonly reason: string | undefined
  readonly remaining: string | undefined
}

async function decide(t: TestContext, edge: Edge, fields: Fields, isLast: boolean): Promise<Told> {
  const client = RawClient.connect(edge.port, t)
  client.send(decisionBytes(original('/', ...fields), { isLast }))
  const answer: RawAnswer = await client.next()
  return { status: answer.status, reason: valuesOf(answer, 'x-edge-reason')[0], remaining: valuesOf(answer, 'ratelimit-remaining')[0] }
}
