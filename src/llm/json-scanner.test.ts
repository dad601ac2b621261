import { describe, expect, test } from 'vitest'
import { isJson } from '../../test/support/llm/json-spelling.ts'
import { isScanned, LIMITS, misjudgedTexts, NO_EVENTS } from '../../test/support/llm/scanned-texts.ts'
import { JsonScanner } from './json-scanner.ts'

describe('a text is JSON exactly when JSON.parse takes it', () => {
  test.each([
    ...['', ' ', '1 ', ' 1', '1 2', '[1 2]', '[1],', '{"a" 1}', "'a'", '/**/1', '\ufeff1', '\u00a01', '\u20281', '\f1', 'NaN', 'Infinity'],
    ...[
      '0',
      '-0',
      '-',
      '01',
      '-01',
      '00',
      '0x1',
      '+1',
      '.5',
      '1.',
      '1.5',
      '1.e1',
      '1e',
      '1e+',
      '1E-07',
      '1e1.5',
      '--1',
      '1-1',
      '1e5e5',
      '0.0e0',
    ],
    ...['true', 'tru', 'truee', 'True', 'null', 'nul', 'nulll', 'false', 'fals', 'falsy', 'undefined'],
    ...[
      '"',
      '"a',
      '"\\"',
      '"\\x"',
      '"\\u12g4"',
      '"\\u123"',
      '"\\U0041"',
      '"\t"',
      '"\n"',
      '"\u007f"',
      '"\u2028"',
      '"\\u0000"',
      '"\\/"',
      '"\\\\"',
    ],
    ...['{"a":1,"a":2}', '{"a":{"b":[{}]}}', '{1:2}', '{"a":1,}', '{"a":1;"b":2}', '[[[[[[]]]]]]', '[[]', '[]]', '{}}', '[{]}', '{"a":[}]'],
  ])('%j', (text) => {
    expect([isScanned(text), isScanned(text, 1)]).toEqual([isJson(text), isJson(text)])
  })

  // Five: json-scanner.slow.test.ts
  test('every text of up to four signs', () => {
    expect(misjudgedTexts(4)).toEqual([])
  })
})

describe('the limits of a scanner', () => {
  test.each([
    ['10 levels', '['.repeat(10) + ']'.repeat(10), false],
    ['11 levels', '['.repeat(11) + ']'.repeat(11), true],
    ['10 values', '[1,"a",true,null,{},[],{"a":{}},1]', false],
    ['11 values', '[1,"a",true,null,{},[],{"a":{}},1,"b"]', true],
    ['names are no values', '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}', false],
    ['a number of 257 characters', `-1.${'5'.repeat(250)}e+10`, true],
    ['a number of 256 characters', `-1.${'5'.repeat(249)}e+10`, false],
  ])('%s', (_, text, isBeyond) => {
    for (const pieceBytes of [1, 1000]) {
      const scanner = new JsonScanner(NO_EVENTS, LIMITS)
      const bytes = Buffer.from(text)
      for (let from = 0; from < bytes.length; from += pieceBytes) scanner.push(bytes, from, Math.min(from + pieceBytes, bytes.length))
      expect([scanner.end(), scanner.isBeyondLimits]).toEqual([!isBeyond, isBeyond])
    }
  })
})
