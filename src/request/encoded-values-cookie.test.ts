import { describe, expect, test } from 'vitest'
import { cookieValue } from './encoded-values.ts'
import { REPEATED } from './view.ts'

describe('a cookie', () => {
  test.each([
    'sid=abc',
    'a=1; sid=abc; b=2',
    'a=1;sid=abc;b=2',
    'sid="abc"',
    ' sid = abc ',
    '\tsid\t=\t"abc"\t;',
    'sid\xa0=abc\x85',
    ';;; =; a; ="; sid=abc',
    'sid=%61bc',
    'sid="%61b%63"',
    's%69d=abc',
    'Sid=x; SID=y; sid=abc; sid2=z; xsid=w',
    'edge_dbg=x; sid=abc; edge_dbg=y',
  ])('is the same however it is spelled, and whatever is beside it: %j', (field) => {
    expect(cookieValue(field, 'sid')).toBe('abc')
  })

  test.each([
    ['sid=a=b', 'a=b'],
    ['sid=a b', 'a b'],
    ['sid=a,b', 'a,b'],
    ['sid=a+b', 'a+b'],
    ['sid="abc', '"abc'],
    ['sid="', '"'],
    ['sid=""abc""', '"abc"'],
    ['sid=%22abc%22', '"abc"'],
    ['sid=100%', '100%'],
    ['sid=%zz', '%zz'],
    ['sid=caf%C3%A9', 'café'],
    ['sid=caf\xc3\xa9', 'café'],
    ['sid=\xff', '\ufffd'],
    ['sid=日本\xe9', '日本\xe9'],
    ['sid=', ''],
    ['sid=""', ''],
    ['sid', ''],
  ])('of %j is %j', (field, value) => {
    expect(cookieValue(field, 'sid')).toBe(value)
  })

  test.each([undefined, '', ';', '=', 'a=sid', 'Sid=abc', 'sid2=abc', 'a=1 sid', 'a=1 sid2=abc', '"sid=abc"'])(
    'is missing in %j',
    (field) => {
      expect(cookieValue(field, 'sid')).toBeUndefined()
    },
  )

  test.each(['sid=a; sid=b', 'sid=a; sid=a', 'sid=a;sid', 'sid; sid=a', 'sid=; sid=', 's%69d=a; sid=b', 'sid=a; x=1; sid="b"'])(
    'is not guessed where its name comes more than once: %j',
    (field) => {
      expect(cookieValue(field, 'sid')).toBe(REPEATED)
    },
  )

  test.each([
    'sid=fake; x=1 sid=real',
    'x=1 sid=real',
    'x=1\tsid=real; sid=fake',
    'x sid=real',
    'x=1 sid =real',
    'x=1 sid = real',
    'x=1, sid=real',
    'x=1,sid=real',
    'sid=fake sid=real',
    'sid=fake, sid=real',
    'x="1 sid=real"',
    'x=1 s%69d=real',
    'x=1\xa0sid=real',
    'x=1\x85sid=real',
    'sid="re\\141l"',
  ])('is not guessed where some backends find another one: %j', (field) => {
    expect(cookieValue(field, 'sid')).toBe(REPEATED)
  })

  test('is found by a name with an escape in it', () => {
    expect(cookieValue('a%20b=1', 'a%20b')).toBe('1')
  })
})
