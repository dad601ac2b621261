import { describe, expect, test } from 'vitest'
import { bucketRule, jwt, policy } from '../../support/bundles/bundles.ts'
import type { Fields } from '../../support/service/http.ts'
import { decideRaw, WIRES } from '../../support/service/raw-decision.ts'
import { edgeWith, expectRefused, lines, REFUSED } from '../../support/service/repeated-fields.ts'

const ALICE = `Bearer ${jwt({ sub: 'alice' })}`

/** Each with the key of the rule that reads it. */
const REPEATED: readonly (readonly [what: string, key: string, fields: Fields])[] = [
  ['a header in two spellings', 'header:x-key', [...lines('X-Key', 'a'), ...lines('x-KEY', 'b')]],
  ['a header twice with one value', 'header:x-key', lines('X-Key', 'a', 'a')],
  ['a header whose second line is empty', 'header:x-key', lines('X-Key', 'a', '')],
  ['a header whose lines are all empty', 'header:x-key', lines('X-Key', '', '')],
  ['a header of three lines, far apart', 'header:x-key', [...lines('X-Key', 'a', 'b'), ...lines('A', '1', '2'), ...lines('X-Key', 'c')]],
  ['a token behind another scheme', 'bearer', [...lines('Authorization', 'Basic YTpi'), ...lines('authorization', 'Bearer a')]],
  ['two words behind one scheme', 'bearer', lines('Authorization', 'Bearer a x1')],
  ['two tokens in one line', 'bearer', lines('Authorization', 'Bearer a, Bearer b')],
  ['a token with claims and a line with a dot in it', 'jwt:sub', lines('Authorization', ALICE, 'x.y')],
  ['a token with claims and a word with a dot in it', 'jwt:sub', lines('Authorization', `${ALICE} x.y`)],
  ['a cookie on two lines', 'cookie:sid', lines('Cookie', 'sid=a', 'sid="a"')],
]

describe.concurrent.each(WIRES)('a field that a limit is keyed by may not come twice, on %s', (_wire, isLast) => {
  test.for(REPEATED)('%s: 400, and nothing is taken', ([_what, key, fields], t) => expectRefused(t, key, fields, isLast))

  test('a rule that lacks another of its keys refuses too: nobody can switch the check off by leaving something out', async (t) => {
    const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', ['header:x-team', 'header:x-key'], 1)] }))
    const fields = lines('X-Key', 'a', 'b')
    expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-team"}')).toBe(0)
  })

  test.for([
    ['a field with a comma in it', 'header:x-key', lines('X-Key', 'a, b')],
    ['lines of X-Forwarded-For', 'ip:address', lines('X-Forwarded-For', '203.0.113.7', '10.0.0.1')],
    ['lines of X-Forwarded-For as a key', 'header:x-forwarded-for', lines('X-Forwarded-For', 'a', 'b')],
    ['lines of Cookie', 'header:cookie', lines('Cookie', 'a=1', 'b=2')],
    ['another cookie', 'cookie:sid', lines('Cookie', 'a=1; sid=s', 'a=2')],
  ] as const)('%s: no refusal', async ([_what, key, fields], t) => {
    const edge = await edgeWith(t, policy('p', { rules: [bucketRule('r', [key], 5)] }))
    expect(await decideRaw(t, edge, '/', fields, isLast)).toMatchObject({ status: 200, reason: undefined })
    expect(await edge.metric(REFUSED)).toBe(0)
  })
})
