import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jwt } from '../../test/support/bundles/bundles.ts'
import { anyText } from '../../test/support/random/texts.ts'
import { claimText, readClaims } from './bearer.ts'

describe('the claims of a bearer token', () => {
  test.each([
    ['as libraries write it', jwt({ sub: 'a' })],
    ['without a signature', jwt({ sub: 'a' }).replace(/[^.]*$/, '')],
    ['without its last part', jwt({ sub: 'a' }).replace(/\.[^.]*$/, '')],
    ['behind a header that is no JSON', 'xx.eyJzdWIiOiJhIn0.yy'],
    ['padded', 'xx.eyJzdWIiOiJhIn0=.yy'],
  ])('are read %s', (_, token) => {
    expect(readClaims(token)).toEqual({ sub: 'a' })
  })

  test('are read in both alphabets of base64, padded or not', () => {
    const payload = Buffer.from(JSON.stringify({ sub: '>>>???~~~ÿÿ' }))
    const base64 = payload.toString('base64')
    expect(base64).toMatch(/[+/].*=$/)
    for (const part of [base64, base64.replace(/=+$/, ''), payload.toString('base64url')]) {
      expect(readClaims(`h.${part}.s`)).toEqual({ sub: '>>>???~~~ÿÿ' })
    }
  })

  test('come back as they went in, whatever they are', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (claims) => {
        expect(readClaims(jwt(claims))).toEqual(JSON.parse(JSON.stringify(claims), keptAsText))
      }),
    )
  })

  test('keep every digit of a whole number that a double cannot hold, and touch no text', () => {
    const payload =
      '{"sub":175928847299117063,"list":[-99999999999999999999],"text":"a:175928847299117063,\\"12345678901234567","half":1.2345678901234567}'
    const token = `x.${Buffer.from(payload).toString('base64url')}.x`
    expect(readClaims(token)).toEqual({
      sub: '175928847299117063',
      list: ['-99999999999999999999'],
      text: 'a:175928847299117063,"12345678901234567',
      half: 1.2345678901234567,
    })
  })

  test('that are not finite numbers are missing', () => {
    const token = `x.${Buffer.from('{"sub":1e400}').toString('base64url')}.x`
    expect(claimText(readClaims(token)!, 'sub', ['sub'])).toBeUndefined()
  })

  test.each([
    ['an empty token', ''],
    ['one part', 'eyJzdWIiOiJhIn0'],
    ['four parts', `${jwt({ sub: 'a' })}.x`],
    ['five parts, an encrypted token', `${jwt({ sub: 'a' })}.x.y`],
    ['two tokens', `${jwt({ sub: 'a' })},${jwt({ sub: 'b' })}`],
    ['an empty payload', 'a..c'],
    ['what is not base64', 'a.e!y$J%z(d)W.c'],
    ['what is not JSON', `a.${Buffer.from('{"sub":').toString('base64url')}.c`],
    ['an array', jwt(['a'])],
    ['a text', jwt('a')],
    ['a number', jwt(5)],
    ['null', jwt(null)],
    ['bytes that are no text', `a.${Buffer.from([0xff, 0xfe, 0x00]).toString('base64url')}.c`],
    ['a token beyond 32 KiB', jwt({ sub: 'a'.repeat(33_000) })],
  ])('are missing in %s', (_, token) => {
    expect(readClaims(token)).toBeUndefined()
  })

  test('are looked for in any text without a crash', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.base64String(), anyText)), (parts) => {
        const claims = readClaims(`${parts.join('.')}`)
        expect([undefined, 'object']).toContain(claims === undefined ? undefined : typeof claims)
      }),
    )
  })
})

describe('a claim', () => {
  test.each([
    ['a text', { sub: 'a b' }, 'sub', 'a b'],
    ['an empty text', { sub: '' }, 'sub', ''],
    ['a number', { sub: 42 }, 'sub', '42'],
    ['a fraction', { sub: 1.5 }, 'sub', '1.5'],
    ['zero', { sub: 0 }, 'sub', '0'],
    ['true', { sub: true }, 'sub', 'true'],
    ['false', { sub: false }, 'sub', 'false'],
    ['null', { sub: null }, 'sub', undefined],
    ['a list', { sub: ['a'] }, 'sub', undefined],
    ['an object', { sub: { a: 1 } }, 'sub', undefined],
    ['absent', {}, 'sub', undefined],
    ['a member of an object', { org: { team: { id: 7 } } }, 'org.team.id', '7'],
    ['a name with dots', { 'https://x.org/id': 'a' }, 'https://x.org/id', 'a'],
    ['a name with dots beside an object', { 'a.b': 'literal', a: { b: 'nested' } }, 'a.b', 'literal'],
    ['a name with dots that holds a list, beside an object', { 'a.b': [], a: { b: 'nested' } }, 'a.b', undefined],
    ['a member of a list', { a: ['x'] }, 'a.0', undefined],
    ['the length of a list', { a: ['x'] }, 'a.length', undefined],
    ['the length of a text', { a: 'x' }, 'a.length', undefined],
    ['an object in the middle of nowhere', { a: null }, 'a.b.c', undefined],
    ['a name that ends in a dot', { a: { '': 'x' } }, 'a.', 'x'],
  ])('that is %s: %j, %s', (_, claims, name, text) => {
    expect(claimText(claims, name, name.split('.'))).toBe(text)
  })

  test.each(['constructor', '__proto__', 'toString', 'constructor.name', '__proto__.constructor.name', 'a.constructor.name'])(
    'that every object inherits is missing: %s',
    (name) => {
      expect(claimText({ a: {} }, name, name.split('.'))).toBeUndefined()
    },
  )

  test('that a token names like what every object inherits is read like any other', () => {
    const claims = readClaims(`h.${Buffer.from('{"__proto__":"x","constructor":"y"}').toString('base64url')}.s`)!
    expect(claimText(claims, '__proto__', ['__proto__'])).toBe('x')
    expect(claimText(claims, 'constructor', ['constructor'])).toBe('y')
  })
})

/** Whole numbers beyond what a double holds come as their digits. */
function keptAsText(_key: string, value: unknown): unknown {
  return typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21
    ? String(value)
    : value
}
