import { describe, expect, test } from 'vitest'
import { encoded } from '../../../test/support/callers/test-issuer.ts'
import { type JwsHeader, parseCompactJws } from './compact-jws.ts'

const HEADER = encoded('{"alg":"RS256"}')
const PAYLOAD = encoded('{"iss":"a"}')

test('a token in the compact form is taken apart', () => {
  const jws = parseCompactJws(`${encoded('{"typ":"JWT","alg":"ES256","kid":"k"}')}.${PAYLOAD}.AQI`)!
  expect(jws.header).toEqual({ alg: 'ES256', kid: 'k', isPlainJwt: true })
  expect([jws.payload, jws.payloadText]).toEqual([{ iss: 'a' }, '{"iss":"a"}'])
  expect(jws.signed.toString()).toBe(`${encoded('{"typ":"JWT","alg":"ES256","kid":"k"}')}.${PAYLOAD}`)
  expect([...jws.signature]).toEqual([1, 2])
})

test.each([
  ['', 'nothing'],
  ['a', 'one part'],
  [`${HEADER}.${PAYLOAD}`, 'two parts'],
  [`${HEADER}.${PAYLOAD}.AQI.AQI`, 'four parts'],
  [`${HEADER}.AQI.AQI.AQI.AQI`, 'five parts: an encrypted token'],
  [`.${PAYLOAD}.AQI`, 'an empty header'],
  [`${HEADER}..AQI`, 'an empty payload'],
  [`${HEADER}.${PAYLOAD}.AQI=`, 'padding'],
  [`${HEADER}.${PAYLOAD}.AQJ`, 'spare bits of the last character'],
  [`${HEADER}.${PAYLOAD}.AQIA_`, 'a single character beyond the last byte'],
  [`${HEADER}.${PAYLOAD}.++++`, 'the other alphabet'],
  [`${HEADER}.${PAYLOAD}.AQ I`, 'white space'],
  [`${HEADER}.${PAYLOAD}.AQI\n`, 'a line break'],
  [`${HEADER}.${PAYLOAD}.\u0141QI`, 'a character whose low byte is a letter'],
  [`${encoded('{"alg":"RS256"')}.${PAYLOAD}.AQI`, 'a header that is not JSON'],
  [`${encoded('\ufeff{"alg":"RS256"}')}.${PAYLOAD}.AQI`, 'a byte order mark'],
  [`${encoded(Buffer.from('{"alg":"RS256","x":"\xff"}', 'latin1'))}.${PAYLOAD}.AQI`, 'a header that is not UTF-8'],
  [`${HEADER}.${encoded(Buffer.from('{"iss":"\xff"}', 'latin1'))}.AQI`, 'a payload that is not UTF-8'],
  [`${encoded('["alg"]')}.${PAYLOAD}.AQI`, 'a header that is a list'],
  [`${encoded('null')}.${PAYLOAD}.AQI`, 'a header that is null'],
  [`${HEADER}.${encoded('"text"')}.AQI`, 'a payload that is a text'],
  [`${HEADER}.${encoded('[{}]')}.AQI`, 'a payload that is a list'],
  [`${encoded('{"kid":"k"}')}.${PAYLOAD}.AQI`, 'no alg'],
  [`${encoded('{"alg":["RS256"]}')}.${PAYLOAD}.AQI`, 'an alg that is a list'],
  [`${encoded('{"alg":"RS256","kid":1}')}.${PAYLOAD}.AQI`, 'a kid that is a number'],
  [`${encoded('{"alg":"RS256","kid":null}')}.${PAYLOAD}.AQI`, 'a kid that is null'],
])('%j is not a token: %s', (token) => {
  expect(parseCompactJws(token)).toBeUndefined()
})

describe('the header', () => {
  test.each([
    ['JWT', true],
    ['jwt', true],
    ['at+jwt', true],
    ['AT+JWT', true],
    ['application/at+jwt', true],
    ['application/jwt', true],
    ['dpop+jwt', false],
    ['logout+jwt', false],
    ['JOSE', false],
    ['', false],
    [null, false],
    [['JWT'], false],
  ])('typ %j is that of a JWT: %s', (typ, isPlainJwt) => {
    expect(headerOf({ alg: 'RS256', typ })?.isPlainJwt).toBe(isPlainJwt)
  })

  test.each([{ crit: ['b64'], b64: true }, { crit: [] }, { crit: null }, { b64: true }, { b64: false }])(
    '%j asks for more than a JWT is',
    (more) => {
      expect(headerOf({ alg: 'RS256', ...more })?.isPlainJwt).toBe(false)
    },
  )

  test('members that name a key or a compression are ignored', () => {
    const more = { jwk: { kty: 'oct' }, jku: 'https://evil.example/', x5u: 'https://evil.example/', x5c: ['AQI'], zip: 'DEF' }
    expect(headerOf({ alg: 'RS256', ...more })).toEqual({ alg: 'RS256', kid: undefined, isPlainJwt: true })
  })

  test('what an object inherits is not a member', () => {
    expect(parseCompactJws(`${encoded('{"__proto__":{"alg":"RS256"}}')}.${PAYLOAD}.AQI`)).toBeUndefined()
  })
})

test.each([
  ['{"alg":"none","alg":"RS256"}', '{}', true],
  ['{"alg":"none","\\u0061lg":"RS256"}', '{}', true],
  ['{"alg":"RS256"}', '{"sub":"a","s\\u0075b":"b"}', true],
  ['{"alg":"RS256"}', '{"a":{"b":1,"b":2}}', true],
  ['{"alg":"RS256"}', '{"a":{"b":1},"b":2}', false],
])('a name that occurs twice in %s or %s is found: %s', (header, payload, isRepeated) => {
  expect(parseCompactJws(`${encoded(header)}.${encoded(payload)}.AQI`)!.hasRepeatedName()).toBe(isRepeated)
})

function headerOf(header: object): JwsHeader | undefined {
  return parseCompactJws(`${encoded(JSON.stringify(header))}.${PAYLOAD}.AQI`)?.header
}
