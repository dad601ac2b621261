import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cookieValue } from '../../src/request/encoded-values.ts'
import { PlainRequestView, REPEATED } from '../../src/request/view.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

const value = fc.string({ unit: fc.constantFrom(...'abcXYZ019-_.~=/+:'), minLength: 1, maxLength: 8 })
const other = fc.constantFrom<string[]>('', 'a', 'a=1', 'a=1', 'Sid=x', 'sid2=x', '=', '"', 'a="1', 'edge_dbg=x')
const blank = fc.constantFrom('', ' ', '\t', '  ')

test('a cookie is the same in any order, spacing and number of lines, with or without quotes and escapes', () => {
  const lines = fc.array(fc.array(other, { maxLength: 3 }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(
      value,
      lines,
      fc.nat(99),
      fc.array(blank, { minLength: 4, maxLength: 4 }),
      fc.boolean(),
      fc.nat(9),
      (plain, around, at, blanks, isQuoted, escapeAt) => {
        const i = escapeAt % plain.length
        const escaped = `${plain.slice(0, i)}%${plain.charCodeAt(i).toString(16)}${plain.slice(i + 1)}`
        const written = isQuoted ? `"${escaped}"` : escaped
        const [a, b, c, d] = blanks
        const line = around[at % around.length]!
        line.splice(at % (line.length + 1), 0, `${a}sid${b}=${c}${written}${d}`)
        const headers = { Cookie: around.map((cookies) => cookies.join(';')) }
        const field = new PlainRequestView({ method: 'GET', uri: '/', headers }).header('cookie')
        expect(cookieValue(field as string, 'sid')).toBe(plain)
        expect(cookieValue(`${field as string}; sid=${plain}`, 'sid')).toBe(REPEATED)
      },
    ),
    { numRuns: runs(34) },
  )
})

test('any text has such a cookie or not, and nothing is thrown', () => {
  const field = fc.oneof(anyText(), fc.string({ unit: fc.constantFrom(...'sid=;" %7\xa0\xff') }))
  fc.assert(
    fc.property(field, (text) => {
      expect(['string', 'undefined', 'symbol']).toContain(typeof cookieValue(text, 'sid'))
    }),
    { numRuns: runs(80) },
  )
})
