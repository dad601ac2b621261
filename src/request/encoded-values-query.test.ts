import { describe, expect, test } from 'vitest'
import { parseDescriptorKey } from '../policy/descriptor-key.ts'
import { encodePathText } from '../text/path.ts'
import { queryValue } from './encoded-values.ts'
import { type FieldValue, REPEATED } from './view.ts'

describe('a query parameter', () => {
  test.each([
    ['/?key=a', 'a'],
    ['/p?x=1&key=a&y=2', 'a'],
    ['/?key=%61', 'a'],
    ['/?%6bey=a', 'a'],
    ['/?%6B%65%79=%61', 'a'],
    ['http://host/p?key=a', 'a'],
    ['?key=a', 'a'],
    ['/?&&key=a&', 'a'],
    ['/?x=key=b&key=a', 'a'],
    ['/?key2=b&xkey=b&Key=b&key=a', 'a'],
    ['/?key=a=b', 'a=b'],
    ['/??key=b&key=a', 'a'],
    ['/?key=a?b', 'a?b'],
    ['/?key=a;b', 'a;b'],
  ])('of %s is %s', (target, value) => {
    expect(valueIn(target)).toBe(value)
  })

  test.each(['/?key=a+b', '/?key=a%20b', '/?key=%61+%62'])('has a space however that is spelled: %s', (target) => {
    expect(valueIn(target)).toBe('a b')
  })

  test('is UTF-8, raw or escaped, in any case of the digits', () => {
    for (const target of ['/?key=caf%C3%A9', '/?key=caf%c3%a9', '/?key=caf\xc3\xa9', encodePathText('/?key=café')]) {
      expect(valueIn(target)).toBe('café')
    }
    for (const target of ['/?n%C3%A4me=a', '/?n\xc3\xa4me=a', '/?%6e%c3%a4me=a']) expect(valueIn(target, 'näme')).toBe('a')
    expect(valueIn('/?a+b=c', 'a b')).toBe('c')
    expect(valueIn('/?a%2bb=c&a+b=d', 'a+b')).toBe('c')
  })

  test.each([
    ['%', '%'],
    ['%4', '%4'],
    ['%zz', '%zz'],
    ['%25zz', '%zz'],
    ['100%', '100%'],
    ['%%61', '%a'],
    ['%2561', '%61'],
    ['%ff', '\ufffd'],
    ['\xff', '\ufffd'],
    ['%c3', '\ufffd'],
    ['%00', '\0'],
    ['%EF%BB%BFa', '\ufeffa'],
  ])('keeps what is no escape, and replaces what is no UTF-8: %j', (spelled, value) => {
    expect(valueIn(`/?key=${spelled}`)).toBe(value)
  })

  test.each(['/', '/p', '', '*', '/?', '/?x=key', '/?x=1&keys=a', '/?KEY=a', '/?x=1;key=a', '/key=a'])('is missing in %j', (target) => {
    expect(valueIn(target)).toBeUndefined()
  })

  test.each(['/?key', '/?key=', '/?%6bey', '/?key&x=1'])('is empty in %j', (target) => {
    expect(valueIn(target)).toBe('')
  })

  test.each([
    '/?key=a&key=b',
    '/?key=a&key=a',
    '/?key=a&%6bey=b',
    '/?key&key=a',
    '/?key=&key=',
    '/?key=a&x=1&k%65y',
    '/?key=a&key=b&key=c',
  ])('is not guessed where its name comes more than once: %s', (target) => {
    expect(valueIn(target)).toBe(REPEATED)
  })

  test.each(['/?key=a#b', '/?x=1#&key=a', '/?key=a#&key=b', '/p#x?key=a', '/?key=a&x=1#&key=a'])(
    'is not guessed where it depends on whether a fragment is cut: %s',
    (target) => {
      expect(valueIn(target)).toBe(REPEATED)
    },
  )

  test.each([
    ['/?key=a&x=1#y', 'a'],
    ['/?key=a&#', 'a'],
    ['/?x=1#key', undefined],
    ['/p#x?y=1', undefined],
    ['/p#key=a', undefined],
  ])('is read where a fragment makes no difference: %s', (target, value) => {
    expect(valueIn(target)).toBe(value)
  })
})

function valueIn(target: string, name = 'key'): FieldValue {
  const key = parseDescriptorKey(`query:${name}`)!
  return key.kind === 'query' ? queryValue(target, key.nameBytes) : undefined
}
