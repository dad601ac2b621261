import { describe, expect, test } from 'vitest'
import { MAX_HEAD_BYTES } from '../../http1/head-reader.ts'
import { INCOMPLETE, OTHER } from '../../http1/request-line.ts'
import { REPEATED } from '../../request/view.ts'
import { QuestionHead } from './question-head.ts'

const START = 'POST /v1/decision HTTP/1.1\r\n'
const PLAIN = `${START}Host: edge\r\nX-Original-Method: GET\r\nX-Original-URI: /a?b\r\nX-Api-Key: alice\r\n\r\n`

describe('a plain head', () => {
  test('is read to its end, and says what was asked', () => {
    const reader = read(PLAIN)
    const view = reader.original()
    expect(view).toMatchObject({ method: 'GET', uri: '/a?b', host: '' })
    expect(reader.header('x-api-key')).toBe('alice')
    expect(reader.header('x-other')).toBeUndefined()
  })

  test('cut anywhere is incomplete, and never anything else', () => {
    for (let length = 0; length < PLAIN.length; length++) expect(outcome(PLAIN.slice(0, length))).toBe(INCOMPLETE)
  })

  test('behind another is read from its own beginning', () => {
    const reader = new QuestionHead()
    const both = bytesOf(PLAIN + PLAIN.replace('alice', 'bob'))
    reader.begin(both, both.length)
    expect(reader.read(0)).toBe(PLAIN.length)
    expect(reader.header('x-api-key')).toBe('alice')
    expect(reader.read(PLAIN.length)).toBe(2 * PLAIN.length - 2)
    expect(reader.header('x-api-key')).toBe('bob')
  })

  test('is kept when its bytes are overwritten, without what stood around it', () => {
    const bytes = bytesOf(`${PLAIN}${PLAIN.replace('alice', 'bob')}${PLAIN}`)
    const reader = new QuestionHead()
    reader.begin(bytes, bytes.length)
    reader.read(PLAIN.length)
    reader.keepHead()
    bytes.fill(0)
    expect(reader.original()).toMatchObject({ method: 'GET', uri: '/a?b', host: '' })
    expect(reader.header('x-api-key')).toBe('bob')
    expect(reader.header('host')).toBe('edge')
  })

  test.each([
    ['names in any case', 'hOST: edge\r\nx-ORIGINAL-method: GET\r\nX-original-uri: /'],
    ['no space after the colon', 'Host:edge\r\nX-Original-Method:GET\r\nX-Original-URI:/'],
    ['an address as Host', 'Host: [::1]:8080\r\nX-Original-Method: GET\r\nX-Original-URI: /'],
    ['a length of 0', 'Host: edge\r\nContent-Length: 0\r\nX-Original-Method: GET\r\nX-Original-URI: /'],
    ['a connection to keep', 'Host: edge\r\nConnection: Keep-Alive\r\nX-Original-Method: GET\r\nX-Original-URI: /'],
    ['bytes above ASCII', 'Host: edge\r\nX-A: \x80\xff\r\nX-Original-Method: GET\r\nX-Original-URI: /'],
  ])('with %s is plain too', (_what, fields) => {
    expect(read(`${START}${fields}\r\n\r\n`).original()).toMatchObject({ method: 'GET', uri: '/' })
  })

  test('says what comes more than once, and joins only what is one list', () => {
    const lists = 'Cookie: a=1\r\nX-Forwarded-For: a\r\ncookie: b=2\r\nx-forwarded-for: b\r\nX-Forwarded-For: \r\n'
    const reader = read(`${START}Host: edge\r\nX-A: 1\r\nX-B: 1, 2\r\nx-a: \r\n${lists}\r\n`)
    expect(reader.header('x-a')).toBe(REPEATED)
    expect(reader.header('x-b')).toBe('1, 2')
    expect(reader.header('x-forwarded-for')).toBe('a, b, ')
    expect(reader.cookie()).toBe('a=1; b=2')
  })

  test('has any number of fields', () => {
    const crowd = Array.from({ length: 1000 }, (_, i) => `a${i}: ${i}\r\n`).join('')
    const reader = read(`${START}Host: edge\r\n${crowd}\r\n`)
    for (const i of [0, 31, 32, 33, 999]) expect(reader.header(`a${i}`)).toBe(String(i))
  })

  test.each([
    ['Method: GET', 'missing_original_uri'],
    ['URI: /', 'missing_original_method'],
    ['Method: GET\r\nX-Original-URI:', 'missing_original_uri'],
    ['Method:\r\nX-Original-URI: /', 'missing_original_method'],
    ['URI: /\r\nX-Original-URI: /\r\nX-Original-Method: a\r\nX-Original-Method: b', 'repeated_original_uri'],
    ['Method: a\r\nX-Original-Method: a\r\nX-Original-URI: /', 'repeated_original_method'],
    ['Host: a\r\nX-Original-Host: b', 'repeated_original_host'],
  ])('with X-Original-%j is refused: %s', (fields, reason) => {
    expect(read(`${START}Host: edge\r\nX-Original-${fields}\r\n\r\n`).original()).toBe(reason)
  })
})

const OWN = 'Host: a.example.com\r\nX-Api-Key: alice\r\n'
const FORWARDED = 'X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /a?b\r\nX-Forwarded-Host: b.example.com\r\n'
const URL = 'X-Original-Method: PUT\r\nX-Original-URL: https://b.example.com:8443/a?b\r\n'
const PUT = { method: 'PUT', uri: '/a?b', host: 'b.example.com' }

describe.each([
  ['GET /v1/forward-auth', FORWARDED, 'forward_auth', PUT],
  ['PATCH /v1/forward-auth', FORWARDED, 'forward_auth', PUT],
  ['GET /v1/forward-auth?a=b', FORWARDED, 'forward_auth', PUT],
  ['GET /v1/auth-request', URL, 'auth_request', { ...PUT, host: 'b.example.com:8443' }],
  ['HEAD /v1/auth-request?', URL, 'auth_request', { ...PUT, host: 'b.example.com:8443' }],
  ['GET /v1/ext-authz', FORWARDED, 'ext_authz', { method: 'GET', uri: '', host: 'a.example.com' }],
  ['GET /v1/ext-authz/', '', 'ext_authz', { method: 'GET', uri: '/', host: 'a.example.com' }],
  ['M-SEARCH /v1/ext-authz/a?b', URL, 'ext_authz', { method: 'M-SEARCH', uri: '/a?b', host: 'a.example.com' }],
  ['POST /v1/ext-authz?b', '', 'ext_authz', { method: 'POST', uri: '?b', host: 'a.example.com' }],
  ['POST /v1/decision?b', 'X-Original-Method: PUT\r\nX-Original-URI: /a?b\r\n', 'decision', { ...PUT, host: '' }],
])('%s', (startLine, fields, door, original) => {
  const head = `${startLine} HTTP/1.1\r\n${OWN}${fields}\r\n`

  test('is plain, and says what was asked', () => {
    const reader = read(head)
    expect(reader.original()).toMatchObject(original)
    expect(reader.door).toBe(door)
    expect(reader.header('x-api-key')).toBe('alice')
    expect(reader.header('')).toBeUndefined()
  })

  test('cut anywhere is incomplete, and never anything else', () => {
    for (let length = 0; length < head.length; length++) expect(outcome(head.slice(0, length))).toBe(INCOMPLETE)
  })

  test('is kept when its bytes are overwritten, and nothing of it is left to the next', () => {
    const bytes = bytesOf(`${PLAIN}${head}${PLAIN}`)
    const reader = new QuestionHead()
    reader.begin(bytes, bytes.length)
    expect(reader.read(PLAIN.length)).toBe(PLAIN.length + head.length)
    reader.original()
    reader.keepHead()
    bytes.fill(0)
    expect([reader.method, reader.uri, reader.host]).toEqual(Object.values(original))
    expect(reader.header('x-api-key')).toBe('alice')
    reader.begin(bytesOf(PLAIN), PLAIN.length)
    reader.read(0)
    expect(reader.original()).toMatchObject({ method: 'GET', uri: '/a?b', host: '' })
  })
})

describe('for node:http to judge is', () => {
  test.each([
    ...[
      ...['get /v1/forward-auth', 'GETS /v1/forward-auth', 'CONNECT /v1/forward-auth', 'MKCALENDARS /v1/forward-auth'],
      ...['GET  /v1/forward-auth', 'GET\t/v1/forward-auth', 'GET /v1/forward-auth/', 'GET /v1/forward-auth#', 'GET /v1/forward-authx'],
      ...['GET /v1/auth-request/x', 'GET http://edge/v1/auth-request', 'GET /v1/ext-authzx', 'GET /v1/ext-authz*', 'GET /v1/ext-authz#'],
      ...['GET /v1/ext-authz/a#b', 'GET /v1/ext-authz/\xe9', 'GET /v1/ext-authz/\x7f', 'GET /v1/ext-authz/a b', 'GET /v2', 'G=T /v1'],
    ].map((startLine): [string, string] => [startLine, `${startLine} HTTP/1.1\r\n${OWN}${FORWARDED}${URL}\r\n`]),
    ['a second Host of its own', `GET /v1/ext-authz/ HTTP/1.1\r\n${OWN}${OWN}\r\n`],
    ['a target of more than 16 KiB', `GET /v1/ext-authz/${'x'.repeat(MAX_HEAD_BYTES)}`],
    ['a query of more than 16 KiB', `GET /v1/forward-auth?${'x'.repeat(MAX_HEAD_BYTES)}`],
    ['a method that cannot become one', 'GEX'],
    ['a method that is none, cut', 'OPTIONSX'],
    ['another method', PLAIN.replace('POST', 'PUT')],
    ['a method in lower case', PLAIN.replace('POST', 'post')],
    ['another target', PLAIN.replace('/v1/decision', '/livez')],
    ['a fragment', PLAIN.replace('/v1/decision', '/v1/decision?x#')],
    ['the absolute form', PLAIN.replace('/v1', 'http://edge/v1')],
    ['another version', PLAIN.replace('1.1', '1.0')],
    ['a line end before it', `\r\n${PLAIN}`],
    ['no Host', PLAIN.replace('Host: edge\r\n', '')],
    ['two Hosts', PLAIN.replace('Host: edge', 'Host: edge\r\nhost: edge')],
    ...['Transfer-Encoding: chunked', 'Expect: 100-continue', 'Upgrade: h2c', 'Trailer: x', 'TE: trailers', 'Proxy-Connection: close'].map(
      withField,
    ),
    ...['Content-Length: 1', 'Content-Length: 00', 'Content-Length: +0', 'Content-Length:', 'Content-Length: 0, 0'].map(withField),
    withField('Content-Length: 0\r\nContent-Length: 0'),
    ...['Connection: close', 'Connection: keep-alive, close', 'Connection:', 'Connection: keep-alive\r\nConnection: keep-alive'].map(
      withField,
    ),
    ...['X-A : b', ' X-A: b', 'X-A', ': b', 'X-A:\tb', 'X-A: b\tc', 'X-A:  b', 'X-A: b ', 'X-(A): b', 'X-\xe9: b'].map(withField),
    ...['X-A: b\r\n folded', 'X-A: \x00', 'X-A: \x7f', 'X-A: \x1f', 'X-A: b\nX-B: c', 'X-A: b\rX-B: c', 'X-A: b\r\r'].map(withField),
    ['line feeds alone', PLAIN.replaceAll('\r\n', '\n')],
    ['a line feed alone at the end', `${PLAIN.slice(0, -2)}\n`],
  ])('%s', (_what, text) => {
    expect(outcome(text)).toBe(OTHER)
  })

  test('a head of more than 16 KiB, as soon as that can be told', () => {
    const ofLength = (length: number): string => `${PLAIN.slice(0, -2)}X: ${'x'.repeat(length - PLAIN.length - 5)}\r\n\r\n`
    expect(outcome(ofLength(MAX_HEAD_BYTES))).toBe(MAX_HEAD_BYTES)
    expect(outcome(ofLength(MAX_HEAD_BYTES + 1))).toBe(OTHER)
    expect(outcome(ofLength(2 * MAX_HEAD_BYTES).slice(0, MAX_HEAD_BYTES))).toBe(OTHER)
    expect(outcome(ofLength(2 * MAX_HEAD_BYTES).slice(0, MAX_HEAD_BYTES - 1))).toBe(INCOMPLETE)
  })

  test.each(['Transfer-Encoding:', 'Content-Length: x', 'Content-Length: 0\r\nContent-Length:', 'X-A: \x00', 'X-A '])(
    'a piece that ends in %j: node:http objects before the line is whole',
    (piece) => {
      expect(outcome(`${START}Host: edge\r\n${piece}`)).toBe(OTHER)
    },
  )
})

function withField(field: string): [string, string] {
  return [JSON.stringify(field), PLAIN.replace('X-Api-Key: alice', field)]
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

function outcome(text: string): number {
  const reader = new QuestionHead()
  reader.begin(bytesOf(text), text.length)
  return reader.read(0)
}

function read(text: string): QuestionHead {
  const reader = new QuestionHead()
  reader.begin(bytesOf(text), text.length)
  expect(reader.read(0)).toBe(text.length)
  return reader
}
