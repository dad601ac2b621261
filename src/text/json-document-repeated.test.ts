import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyText } from '../../test/support/random/texts.ts'
import { findRepeatedName } from './json-document.ts'

test.each([
  ['{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}],"d":"a"}', undefined],
  ['{"a":1, "b":[{}], "a":2}', { name: 'a', offset: 18 }],
  ['[{"x":{"a":1,"\\u0061":2}}]', { name: 'a', offset: 13 }],
  ['{"a":"\\"a\\\\","b":["a","a"],"":0,"b":1}', { name: 'b', offset: 32 }],
  ['{"__proto__":1,"__proto__":2}', { name: '__proto__', offset: 15 }],
  ['"a"', undefined],
])('%s', (json, expected) => {
  expect(findRepeatedName(json)).toEqual(expected)
})

test('whatever JSON.stringify writes has none, and one more of a name that is there is found', () => {
  const value = fc.dictionary(anyText, fc.jsonValue(), { minKeys: 1 })
  fc.assert(
    fc.property(value, fc.nat(), fc.constantFrom(undefined, 1, 2), (object, choice, indent) => {
      const json = JSON.stringify(object, null, indent)
      expect(findRepeatedName(json)).toBeUndefined()
      const names = Object.keys(object)
      const name = names[choice % names.length]!
      const more = `${json.slice(0, json.lastIndexOf('}'))},${JSON.stringify(name)}:0}`
      expect(findRepeatedName(more)?.name).toBe(name)
    }),
  )
})
