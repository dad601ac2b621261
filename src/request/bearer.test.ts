import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bearerToken } from './bearer.ts'
import { REPEATED } from './view.ts'

describe('a bearer token', () => {
  test.each([
    'Bearer t.u-v_w~x+y/z==',
    'bearer t.u-v_w~x+y/z==',
    'BEARER t.u-v_w~x+y/z==',
    'Bearer  t.u-v_w~x+y/z==',
    'Bearer\tt.u-v_w~x+y/z==',
    'Bearer \t t.u-v_w~x+y/z== \t',
    ' Bearer t.u-v_w~x+y/z==',
    'Bearer\xa0t.u-v_w~x+y/z==\x85',
  ])('is the same however the field is spelled: %j', (authorization) => {
    expect(bearerToken(authorization)).toBe('t.u-v_w~x+y/z==')
  })

  test('keeps its case, and is one word whatever it is made of', () => {
    expect(bearerToken('Bearer Aa')).toBe('Aa')
    expect(bearerToken('Bearer a,b')).toBe('a,b')
    expect(bearerToken('Bearer \xe9')).toBe('\xe9')
    expect(bearerToken('Bearer Bearer')).toBe('Bearer')
  })

  test.each([
    undefined,
    '',
    ' ',
    'Bearer',
    'bearer ',
    'Bearer \t ',
    'Bearer\xa0',
    'Basic t',
    'Bearert',
    'Bearer,t',
    't',
    'DPoP t',
    'x Bearer t',
  ])('is missing in %j', (authorization) => {
    expect(bearerToken(authorization)).toBeUndefined()
  })

  test.each(['Bearer a b', 'Bearer a, Bearer b', 'Bearer a\tb', 'bearer  a  b ', 'Bearer a\xa0b', 'Bearer a\x85b', 'Bearer a b c d e f'])(
    'is not guessed where several words follow the scheme: %j',
    (authorization) => {
      expect(bearerToken(authorization)).toBe(REPEATED)
    },
  )

  test('is not guessed where the field comes more than once', () => {
    expect(bearerToken(REPEATED)).toBe(REPEATED)
  })

  describe('that is a JWT', () => {
    const signed = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0'
    const encrypted = 'eyJhbGciOiJSU0EtT0FFUCJ9.QQ.QUE.QUFB.QQ'

    const start = 'QUFB'.repeat(8)

    test.each([
      ['that ends in one byte', `${start}Q`, 'ghijklmnopqrstuv', 'g'],
      ['that ends in two bytes', `${start}QU`, 'EFGH', 'E'],
      ['that ends in three', `${start}QUF`, 'B', 'B'],
    ])('is one token in every spelling of a signature %s', (_, start, ends, first) => {
      const spellings = [...ends].flatMap((end) =>
        ['', '=', '=='].map((padding) => bearerToken(`Bearer ${signed}.${start}${end}${padding}`)),
      )
      expect(new Set(spellings)).toEqual(new Set([`${signed}.${start}${first}`]))
    })

    test('is another one with another signature', () => {
      expect(bearerToken(`Bearer ${signed}.${start}Qg`)).not.toBe(bearerToken(`Bearer ${signed}.${start}Qw`))
    })

    test('is one in both alphabets', () => {
      expect(bearerToken(`Bearer ${signed}.${start}+/Aa`)).toBe(`${signed}.${start}-_Aa`)
    })

    test('is one if it is encrypted, whichever part is respelled', () => {
      for (const spelled of ['QR.QUE.QUFB.QQ', 'QQ.QUF.QUFB.QQ==', 'QQ=.QUE=.QUFB.QZ']) {
        expect(bearerToken(`Bearer eyJhbGciOiJSU0EtT0FFUCJ9.${spelled}`)).toBe(encrypted)
      }
    })

    test('may be one without a signature', () => {
      expect(bearerToken(`Bearer ${signed}.`)).toBe(`${signed}.`)
      expect(bearerToken('Bearer eyJhbGciOiJkaXIifQ..QUE.QUFB.QQ')).toBe('eyJhbGciOiJkaXIifQ..QUE.QUFB.QQ')
    })

    test.each(['Q!!!!Q==', 'Q=Q', 'QQ===', 'QQ\xe9', 'Q,Q', 'Q', 'QUFBQ'])(
      'counts as repeated with characters that a backend may skip: %j',
      (end) => {
        expect(bearerToken(`Bearer ${signed}.${start}${end}`)).toBe(REPEATED)
      },
    )

    test.each([
      'eyJ.a',
      'eyJ',
      'eyJ.a.b.c',
      'eyJ.a.b.c.d.e',
      'sk.a.QR',
      'ex.team.01',
      'ex.team.02',
      'e2.prod.key-3@x',
      'eyJhbGciOiJIUzI1NiJ9.a.QR',
    ])('is only what has the form of one: %s', (token) => {
      expect(bearerToken(`Bearer ${token}`)).toBe(token)
    })
  })

  test('is found as a reader finds it that splits at white space', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '\t', '\xa0', '\x85', ',', '.') })
    const scheme = fc.constantFrom('Bearer', 'bearer', 'BEARER', 'Basic', '')
    fc.assert(
      fc.property(
        fc.tuple(text, scheme, text).map((parts) => parts.join('')),
        (authorization) => {
          const words = authorization.split(/[ \t\xa0\x85]/).filter(Boolean)
          const expected = words[0]?.toLowerCase() !== 'bearer' ? undefined : words.length > 2 ? REPEATED : words[1]
          expect(bearerToken(authorization)).toBe(expected)
        },
      ),
    )
  })
})
