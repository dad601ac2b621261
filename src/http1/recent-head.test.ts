import { expect, test } from 'vitest'
import { RecentHead } from './recent-head.ts'

const HEAD = 'GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n'

function recentHead(): RecentHead<string> {
  const recent = new RecentHead<string>()
  recent.keep(HEAD, 'read')
  return recent
}

test('a head is found again where all its bytes are, whatever is around it', () => {
  const recent = recentHead()
  const bytes = Buffer.from(`..${HEAD}body`, 'latin1')
  expect(recent.find(bytes, 2, bytes.length)).toBe('read')
  expect(recent.find(bytes, 2, 2 + recent.length)).toBe('read')
  expect(recent.find(bytes, 2, 1 + recent.length)).toBe(undefined)
  expect(recent.find(bytes, 1, bytes.length)).toBe(undefined)
})

test('before any was read, none is found', () => {
  expect(new RecentHead().find(Buffer.from('\n\n\n\n'), 3, 4)).toBe(undefined)
})

test('one other byte makes it another, wherever the one before differed', () => {
  const recent = recentHead()
  const usual = Buffer.from(HEAD, 'latin1')
  for (let first = 0; first < HEAD.length; first++) {
    for (let second = 0; second < HEAD.length; second++) {
      for (const at of [first, second]) expect(recent.find(withOtherByte(at), 0, usual.length)).toBe(undefined)
      expect(recent.find(usual, 0, usual.length)).toBe('read')
    }
  }
})

test('a shorter head is found behind a longer one that differed near its end', () => {
  const recent = recentHead()
  recent.find(withOtherByte(HEAD.length - 5), 0, HEAD.length)
  const short = Buffer.from('A\r\n\r\n')
  recent.keep(short.toString(), 'short')
  expect(recent.find(short, 0, short.length)).toBe('short')
})

function withOtherByte(at: number): Buffer {
  const bytes = Buffer.from(HEAD, 'latin1')
  bytes[at]! ^= 0x20
  return bytes
}

test('a long head is not kept', () => {
  const recent = recentHead()
  const long = `GET / HTTP/1.1\r\nCookie: ${'x'.repeat(5000)}\r\n\r\n`
  recent.keep(long, 'long')
  expect(recent.find(Buffer.from(long), 0, long.length)).toBe(undefined)
  expect(recent.length).toBe(HEAD.length)
})
