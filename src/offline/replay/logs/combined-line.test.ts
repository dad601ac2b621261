import { expect, test } from 'vitest'
import { readCombinedLine } from './combined-line.ts'

const TIME = '02/Jan/2026:15:04:05 +0100'
const MS = Date.parse('2026-01-02T14:04:05Z')

function read(line: string): object | string {
  const request = readCombinedLine(line)
  if (typeof request === 'string') return request
  const { timeMs, method, uri, host, peer, fields, body } = request
  return { timeMs, method, uri, host, peer, fields, body }
}

const PLAIN = { timeMs: MS, method: 'GET', uri: '/x?a=1', host: '', peer: '203.0.113.7', fields: [], body: undefined }

test.each([
  ['combined', `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-"`, PLAIN],
  ['common', `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5`, PLAIN],
  ['of HTTP/0.9', `203.0.113.7 - - [${TIME}] "GET /x?a=1" 200 5 "-" "-"`, PLAIN],
  ['with a carriage return', `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-"\r`, PLAIN],
  ['with odd names of users', `203.0.113.7 - a b] [c [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-"`, PLAIN],
  ['with IPv6', `2001:db8::1 - - [${TIME}] "GET /x?a=1 HTTP/2.0" 200 5 "-" "-"`, { ...PLAIN, peer: '2001:db8::1' }],
  ['of a unix socket', `unix: - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-"`, { ...PLAIN, peer: undefined }],
  ['with a name', `host.example - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-"`, { ...PLAIN, peer: undefined }],
  [
    'with header fields',
    `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "https://a.example/?q=[1]" "Agent \\x22A\\x22 (\\xC3\\xA9)"`,
    { ...PLAIN, fields: ['referer', 'https://a.example/?q=[1]', 'user-agent', 'Agent "A" (\xc3\xa9)'] },
  ],
  [
    "of nginx's main",
    `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "curl" "198.51.100.1, 10.0.0.1"`,
    { ...PLAIN, fields: ['user-agent', 'curl', 'x-forwarded-for', '198.51.100.1, 10.0.0.1'] },
  ],
  ['with another field at its end', `203.0.113.7 - - [${TIME}] "GET /x?a=1 HTTP/1.1" 200 5 "-" "-" "0.003" upstream`, PLAIN],
  [
    "with Apache's escapes",
    `203.0.113.7 - - [${TIME}] "GET /x?a=\\"\\\\ HTTP/1.1" 200 5 "-" "a\\"b\\\\"`,
    { ...PLAIN, uri: '/x?a="\\', fields: ['user-agent', 'a"b\\'] },
  ],
  ['with spaces in its target', `203.0.113.7 - - [${TIME}] "GET /a b HTTP/1.1" 200 5 "-" "-"`, { ...PLAIN, uri: '/a b' }],
  ['with HTTP in its target', `203.0.113.7 - - [${TIME}] "GET /a HTTP/x HTTP/1.1" 200 5 "-" "-"`, { ...PLAIN, uri: '/a HTTP/x' }],
])('a line %s', (_, line, expected) => {
  expect(read(line)).toEqual(expected)
})

test.each([
  ['neither the combined format nor JSON', ''],
  ['neither the combined format nor JSON', '"'],
  ['neither the combined format nor JSON', 'Jan  2 15:04:05 host nginx[1]: started'],
  ['neither the combined format nor JSON', `[${TIME}] "GET / HTTP/1.1"`],
  ['its time cannot be read', '203.0.113.7 - - [02/Jan/2026:25:04:05 +0100] "GET / HTTP/1.1" 200 5 "-" "-"'],
  ['it has no request', `203.0.113.7 - - [${TIME}] "-" 408 0 "-" "-"`],
  ['it has no request', `203.0.113.7 - - [${TIME}] "" 400 0 "-" "-"`],
  ['it has no request', `203.0.113.7 - - [${TIME}] "GET  HTTP/1.1" 400 0 "-" "-"`],
  ['it has no request', `203.0.113.7 - - [${TIME}] "\\x16\\x03\\x01\\x00 x" 400 157 "-" "-"`],
  ['it ends in the middle of the request', `203.0.113.7 - - [${TIME}] "GET / HT`],
  ['it ends in the middle of the request', `203.0.113.7 - - [${TIME}] "GET /\\"`],
])('%s: %s', (why, line) => {
  expect(read(line)).toBe(why)
})
