import { describe, expect, test } from 'vitest'
import { HeadReader } from './head-reader.ts'
import { INCOMPLETE, OTHER } from './request-line.ts'

test('one head leaves no trace in the next', () => {
  const fields = new HeadReader()
  for (const [lines, length, isChunked] of [
    ['Host: a\r\nContent-Length: 12\r\n\r\n', 12, false],
    ['Host: a\r\nTransfer-Encoding: Chunked\r\nConnection: keep-alive\r\n\r\n', 0, true],
    ['Host: a\r\nConnection: Keep-Alive\r\n\r\n', 0, false],
  ] as const) {
    expect(fields.read(Buffer.from(lines, 'latin1'), 0, lines.length)).toBe(lines.length)
    expect([fields.contentLength, fields.isChunked]).toEqual([length, isChunked])
  }
})

describe('a piece of a head', () => {
  test.each([
    'Connection: keep-alive\r\nContent-Length: 120\r\nX-A: b\r\n\r\n',
    'Connection:Keep-Alive\r\nTransfer-Encoding: Chunked\r\nX-A:\r\n\r\n',
  ])('is incomplete wherever it is cut: %j', (lines) => {
    for (let length = 0; length < lines.length; length++) expect([length, read(lines.slice(0, length))]).toEqual([length, INCOMPLETE])
  })

  test.each([
    ...['TE:', 'Expect: ', 'Upgrade: h2', 'Trailer:', 'Proxy-Connection: keep', 'Connection: c', 'Connection: keep-alive,'],
    ...[
      'Content-Length: x',
      'Content-Length: 1x',
      'Content-Length: 00',
      'Content-Length: 1234567890123456',
      'Content-Length: 0\r\nContent-Length:',
    ],
    ...['Transfer-Encoding: g', 'Transfer-Encoding: chunked,', 'Content-Length: 1\r\nTransfer-Encoding:', 'X-A: \x00', 'X-A:  ', 'X-A '],
  ])('is for node:http as soon as that might object to it: %j', (piece) => {
    expect(read(`Host: a\r\n${piece}`)).toBe(OTHER)
  })
})

function read(lines: string): number {
  return new HeadReader().read(Buffer.from(lines, 'latin1'), 0, lines.length)
}
