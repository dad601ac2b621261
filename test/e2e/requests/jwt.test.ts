import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, jwt, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const MISSING = 'edge_descriptor_missing_total{key="jwt:sub"}'
const ALICE = { sub: 'alice' }
const deep = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`

const UNREADABLE: readonly (readonly [what: string, authorization: string])[] = [
  ['an empty field', ''],
  ['Bearer and nothing', 'Bearer'],
  ['Bearer and a space', 'Bearer '],
  ['another scheme', `Basic ${jwt(ALICE)}`],
  ['no scheme', jwt(ALICE)],
  ['one part', 'Bearer abc'],
  ['four parts', `Bearer ${jwt(ALICE)}.x`],
  ['dots alone', 'Bearer ..'],
  ['an empty payload', 'Bearer e30..sig'],
  ['a payload that is not base64', 'Bearer e30.%%%%.sig'],
  ['a payload of stray characters', 'Bearer e30.*&^$#@!.sig'],
  ['a payload that is not JSON', `Bearer e30.${encoded('sub=alice')}.sig`],
  ['a payload of half a JSON', `Bearer e30.${encoded('{"sub":"ali')}.sig`],
  ['a payload of bytes that are no UTF-8', `Bearer e30.${Buffer.from([0xff, 0xfe, 0xfd]).toString('base64url')}.sig`],
  ['an array', `Bearer e30.${encoded('["sub","alice"]')}.sig`],
  ['null', `Bearer e30.${encoded('null')}.sig`],
  ['a text', `Bearer e30.${encoded('"sub"')}.sig`],
  ['a number', `Bearer e30.${encoded('42')}.sig`],
  ['no such claim', `Bearer ${jwt({ name: 'alice' })}`],
  ['a null claim', `Bearer ${jwt({ sub: null })}`],
  ['an empty claim', `Bearer ${jwt({ sub: '' })}`],
  ['a list for a claim', `Bearer ${jwt({ sub: ['alice'] })}`],
  ['an object for a claim', `Bearer ${jwt({ sub: { id: 'alice' } })}`],
  ['a payload three thousand objects deep', `Bearer e30.${encoded(deep(3000))}.sig`],
  ['a token of 50 KB', `Bearer ${jwt({ ...ALICE, pad: 'x'.repeat(37_000) })}`],
]

describe('a token that says nothing', () => {
  let edge: Edge
  beforeAll(async () => {
    const rules = [bucketRule('per-user', ['jwt:sub'], 1), bucketRule('all', [], 1000)]
    edge = await Edge.start({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock() })
  })
  afterAll(() => edge.stop())

  test.each(UNREADABLE)('%s: its rule is skipped and counted as missing, the others apply', async (_what, authorization) => {
    const missing = await edge.metric(MISSING)
    const fields: Fields = [['Authorization', authorization]]
    const answers = [await edge.decide({ fields }), await edge.decide({ fields })]
    expect(answers.map(({ status, headers }) => [status, headers['ratelimit-limit']])).toEqual([
      [200, '1000'],
      [200, '1000'],
    ])
    expect(await edge.metric(MISSING)).toBe(missing + 2)
  })
})

describe.concurrent('a token that can be read', () => {
  const spellings: readonly (readonly [what: string, authorization: string])[] = [
    ['base64url', `Bearer ${jwt(ALICE)}`],
    ['padded base64', `Bearer e30=.${Buffer.from(JSON.stringify(ALICE)).toString('base64')}.sig`],
    ['unsigned', `Bearer e30.${encoded(JSON.stringify(ALICE))}.`],
    ['without its third part', `Bearer e30.${encoded(JSON.stringify(ALICE))}`],
    ['a lower-case scheme', `bearer ${jwt(ALICE)}`],
    ['an upper-case scheme and more spaces', `BEARER   ${jwt(ALICE)}`],
    ['white space in its JSON', `Bearer e30.${encoded(' {\n "sub" : "alice" } ')}.sig`],
    ['20 KB of other claims', `Bearer ${jwt({ pad: 'x'.repeat(15_000), ...ALICE })}`],
  ]

  test.for(spellings)('%s: names the same caller', async ([_what, authorization], t) => {
    const edge = await perClaim(t, 'jwt:sub')
    expect((await edge.decide({ fields: [['Authorization', `Bearer ${jwt(ALICE)}`]] })).status).toBe(200)
    expect((await edge.decide({ fields: [['Authorization', authorization]] })).status).toBe(429)
  })

  test.for([
    ['numbers', { sub: 42 }, { sub: 43 }],
    ['booleans', { sub: true }, { sub: false }],
    ['zero and false', { sub: 0 }, { sub: false }],
    ['letters beyond Latin', { sub: '日本' }, { sub: '日木' }],
    ['control characters', { sub: 'a\u0000' }, { sub: 'a' }],
    ['halves of a pair', { sub: '\ud800' }, { sub: '\udfff' }],
  ] as const)('%s are told apart', async ([_what, one, other], t) => {
    const edge = await perClaim(t, 'jwt:sub')
    const times = (claims: object): Promise<number[]> => edge.decideTimes(2, { fields: [['Authorization', `Bearer ${jwt(claims)}`]] })
    expect(await times(one)).toEqual([200, 429])
    expect(await times(other)).toEqual([200, 429])
  })
})

function perClaim(t: TestContext, key: string): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] })), clock: new ManualClock() }, t)
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64url')
}
