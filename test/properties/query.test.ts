import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseDescriptorKey } from '../../src/policy/descriptor-key.ts'
import { queryValue } from '../../src/request/encoded-values.ts'
import { type FieldValue, REPEATED } from '../../src/request/view.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 6 })
const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 }).filter((each) => !/\p{Cc}/u.test(each) && each.isWellFormed())

describe('a query parameter', () => {
  test('is what a reader of forms finds, in any well-formed query', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(name, text), { maxLength: 6 }), (pairs) => {
        const parameters = new URLSearchParams(pairs)
        for (const [wanted] of pairs) expect(valueIn(`/p?${parameters}`, wanted)).toBe(single(parameters.getAll(wanted)))
        expect(valueIn(`/p?${parameters}`, 'not there')).toBe(single(parameters.getAll('not there')))
      }),
      { numRuns: runs(20) },
    )
  })

  test('is what a reader of forms finds in any ASCII text, escapes that are none included', () => {
    const query = fc.string({ unit: fc.constantFrom(...'ab%%%+==&&;?/:61eEfFcC3A9'), maxLength: 30 })
    fc.assert(
      fc.property(query, (spelled) => {
        // A question mark at the beginning would be cut off.
        const parameters = new URLSearchParams(`?${spelled}`)
        for (const wanted of ['a', 'b', ' ', '%', 'ab', '\u00e9'])
          expect(valueIn(`/?${spelled}`, wanted)).toBe(single(parameters.getAll(wanted)))
      }),
      { numRuns: runs(60) },
    )
  })

  test('is the same however its characters are spelled, and wherever it stands', () => {
    const others = fc.array(fc.constantFrom('', 'x=1', 'keys=a', 'x', '=', 'Key=b', 'x=%6bey=', 'x+=+'), { maxLength: 4 })
    const spellings = fc.infiniteStream(fc.constantFrom('raw', 'upper', 'lower'))
    fc.assert(
      fc.property(text, others, others, spellings, (value, before, after, stream) => {
        const spelled = `${spell('key', stream)}=${spell(value.toWellFormed(), stream)}`
        expect(valueIn(`/p?${[...before, spelled, ...after].join('&')}`, 'key')).toBe(value.toWellFormed())
      }),
      { numRuns: runs(20) },
    )
  })

  test('of any text is found or not, and nothing is thrown', () => {
    const target = fc.oneof(anyText(), fc.string({ unit: fc.constantFrom(...'key=&?#%6b\xff\0') }))
    fc.assert(
      fc.property(target, (any) => {
        expect(['string', 'undefined', 'symbol']).toContain(typeof valueIn(any, 'key'))
      }),
      { numRuns: runs(40) },
    )
  })
})

function valueIn(target: string, wanted: string): FieldValue {
  const key = parseDescriptorKey(`query:${wanted}`)!
  return key.kind === 'query' ? queryValue(target, key.nameBytes) : undefined
}

function single(values: readonly string[]): FieldValue {
  return values.length > 1 ? REPEATED : values[0]
}

/** UTF-8, one character per byte. What separates parameters is always escaped. */
function spell(characters: string, spellings: Iterator<string>): string {
  return [...Buffer.from(characters)]
    .map((byte) => {
      const char = String.fromCharCode(byte)
      const spelling = spellings.next().value
      if (spelling === 'raw' && char === ' ') return '+'
      if (spelling === 'raw' && !/[&=+%#]/.test(char)) return char
      const hex = byte.toString(16).padStart(2, '0')
      return `%${spelling === 'lower' ? hex : hex.toUpperCase()}`
    })
    .join('')
}
