import { describe, expect, test } from 'vitest'
import { MAX_HEAD_BYTES } from '../../http1/head-reader.ts'
import { INCOMPLETE, OTHER } from '../../http1/request-line.ts'
import { RequestHeadReader } from './request-head-reader.ts'

const HEAD = 'POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-Latin: \xe9\r\nX-Empty: \r\nContent-Length: 12\r\n\r\n'

function read(text: string, behind = ''): { end: number; reader: RequestHeadReader } {
  const reader = new RequestHeadReader()
  const bytes = Buffer.from(`--${text}${behind}`, 'latin1')
  return { end: reader.read(bytes, 2, bytes.length), reader }
}

test('reads a plain head wherever it stands, and leaves what is behind it', () => {
  const { end, reader } = read(HEAD, 'the body')
  expect(end).toBe(2 + HEAD.length)
  expect(reader.received).toEqual({
    method: 'POST',
    target: '/a?b=c',
    version: '1.1',
    fields: ['Host', 'a', 'X-Latin', '\xe9', 'X-Empty', '', 'Content-Length', '12'],
    lines: HEAD.slice(HEAD.indexOf('Host'), -2),
  })
})

test('a head that is cut anywhere is incomplete, and nothing of it is judged differently', () => {
  for (let at = 1; at < HEAD.length; at++) expect([at, read(HEAD.slice(0, at)).end]).toEqual([at, INCOMPLETE])
})

test('lines are told only where each is written in the usual way', () => {
  expect(read('GET / HTTP/1.1\r\nHost:a\r\n\r\n').reader.received).toMatchObject({ fields: ['Host', 'a'], lines: undefined })
})

describe('is for node:http to judge', () => {
  test.each([
    'GET / HTTP/1.0\r\nHost: a\r\n\r\n',
    'GET / HTTP/1.1\nHost: a\r\n\r\n',
    'GET  / HTTP/1.1\r\nHost: a\r\n\r\n',
    'get / HTTP/1.1\r\nHost: a\r\n\r\n',
    'GARBAGE',
    'SMUGGLE / HTTP/1.1\r\nHo',
    'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /# HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n',
    'OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET / HTTP/1.1\r\nHost : a\r\n\r\n',
    'GET / HTTP/1.1\r\nHost:  a\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a \r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\tb\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n',
    'GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n',
    'GET / HTTP/1.1\r\nX: a\x7fb\r\n\r\n',
    'GET / HTTP/1.1\r\nTE: trailers\r\n\r\n',
    'GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n',
    'GET / HTTP/1.1\r\nUPGRADE: h2c\r\n\r\n',
    'GET / HTTP/1.1\r\nTrailer: X\r\n\r\n',
    'GET / HTTP/1.1\r\nProxy-Connection: keep-alive\r\n\r\n',
    'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
    'GET / HTTP/1.1\r\nConnection: keep-alive, x\r\n\r\n',
    'GET / HTTP/1.1\r\nConnection: keep-alive\r\nConnection: keep-alive\r\n\r\n',
    'GET / HTTP/1.1\r\nContent-Length:\r\n\r\n',
    'GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n',
    'GET / HTTP/1.1\r\nContent-Length: 1234567890123456\r\n\r\n',
    'GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n',
    'GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n',
    'GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n',
    'GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n',
    `GET / HTTP/1.1\r\nX: ${'x'.repeat(MAX_HEAD_BYTES)}`,
  ])('%j', (text) => {
    expect(read(text).end).toBe(OTHER)
  })
})
