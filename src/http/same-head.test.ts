import { expect, test } from 'vitest'
import { isSameHead } from './same-head.ts'

const HEAD = 'GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n'

test('a head is the same where all its bytes are, whatever is around it', () => {
  const bytes = Buffer.from(`..${HEAD}body`, 'latin1')
  expect(isSameHead(HEAD, bytes, 2, bytes.length)).toBe(true)
  expect(isSameHead(HEAD, bytes, 2, 2 + HEAD.length)).toBe(true)
  expect(isSameHead(HEAD, bytes, 2, 1 + HEAD.length)).toBe(false)
  expect(isSameHead(HEAD, bytes, 1, bytes.length)).toBe(false)
})

test('one other byte makes it another', () => {
  for (let at = 0; at < HEAD.length; at++) {
    const bytes = Buffer.from(HEAD, 'latin1')
    bytes[at]! ^= 0x20
    expect(isSameHead(HEAD, bytes, 0, bytes.length)).toBe(false)
  }
})
