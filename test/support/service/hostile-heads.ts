import { METHODS } from 'node:http'
import fc from 'fast-check'
import { BODIES, HOST_LINE, ODD_FIELDS, ODD_HOSTS, ODD_STARTS, START_LINE, type Talk } from './odd-heads.ts'

/** Talks in which only callers of this name are counted, so that talks side by side do not disturb each other. */
export function talkOf(caller: string, cookie: string): fc.Arbitrary<Talk> {
  const plain = plainHead(caller, cookie)
  const plains = fc.array(plain, { minLength: 10, maxLength: 60, size: 'max' })
  const odd = fc.oneof({ weight: 3, arbitrary: mutated(plain) }, { weight: 2, arbitrary: oddHead(plain) }, { weight: 2, arbitrary: plain })
  const odds = fc.array(fc.tuple(odd, cuts(2)), { maxLength: 5, size: 'max' })
  return fc.tuple(plains, cuts(6), odds).map(([usual, places, others]) => ({
    plain: cut(usual.join(''), places),
    plainHeads: usual.length,
    odd: others.flatMap(([text, where]) => cut(text, where)),
    oddHeads: others.length,
  }))
}

/** Any place of a text is as likely as any other. */
const share = fc.integer({ min: 0, max: 9999 }).map((part) => part / 10_000)

/** Any method but CONNECT, whose target is no path. */
const METHOD = fc.constantFrom('GET', 'POST', 'HEAD', ...METHODS.filter((method) => method !== 'CONNECT'))
const QUERY = fc.constantFrom('', '', '', '?', '?x=1', '?y=2&/v1/decision')
const TARGET = fc.constantFrom(
  ...['/', '/api/x?y=1', '/api/x?y=%31', '/api/%78?y=1&y=2', '/by-host', '/%61pi', '//api', '/x/../api', '/http://h/api', '?y=1', ''],
)

/** A way to ask: its request line and the fields that belong to it. */
type Shape = readonly [startLine: fc.Arbitrary<string>, ...fields: fc.Arbitrary<string>[]]

const DECISION: Shape = [
  QUERY.map((query) => `POST /v1/decision${query} HTTP/1.1`),
  field('X-Original-Method', 'GET', 'GET', 'POST', 'get', ''),
  field('X-Original-URI', '/', '/api/x?y=1', '/api/x?y=%31', '/api/%78?y=1&y=2', '/by-host', '/%61pi', 'http://h/api', ''),
]

const FORWARD_AUTH: Shape = [
  fc.tuple(METHOD, QUERY).map(([method, query]) => `${method} /v1/forward-auth${query} HTTP/1.1`),
  field('X-Forwarded-Method', 'GET', 'GET', 'POST', 'get', ''),
  field('X-Forwarded-Uri', '/', '/api/x?y=1', '/api/x?y=%31', '/by-host', '//api', 'http://h/api', ''),
  field('X-Forwarded-Host', 'a.example.com', 'A.example.com:80', 'a.example.com, b', 'other', ''),
]

const AUTH_REQUEST: Shape = [
  fc.tuple(METHOD, QUERY).map(([method, query]) => `${method} /v1/auth-request${query} HTTP/1.1`),
  field('X-Original-Method', 'GET', 'GET', 'POST', 'get', ''),
  field(
    'X-Original-URL',
    ...['http://a.example.com/by-host', 'https://A.example.com:8443/api/x?y=1', 'HTTPS://other/by-host', 'http:///api/x', 'http://h'],
    ...['http://a.example.com?x/by-host', 'http://h#/api', 'http://u@a.example.com/by-host', '/api/x', 'ftp://h/api', 'http:/h/api', ''],
  ),
]

const EXT_AUTHZ: Shape = [fc.tuple(METHOD, TARGET).map(([method, target]) => `${method} /v1/ext-authz${target} HTTP/1.1`)]

const SHAPES = [DECISION, FORWARD_AUTH, AUTH_REQUEST, EXT_AUTHZ]

function plainHead(caller: string, cookie: string): fc.Arbitrary<string> {
  const extra = fc.oneof(
    field('X-Team', 'a', 'b', '', 'a, b', '\xe9\xff\x80'),
    field('X-Forwarded-For', '203.0.113.9', '203.0.113.9, 10.0.0.1', 'unknown', ''),
    field('Cookie', 'a=1', 'a="1"; b=2', 'a=2; a=3', cookie, `b=2; ${cookie}`, ''),
    field('Connection', 'keep-alive', 'Keep-Alive'),
    field('Accept', '*/*'),
    field('X-Edge-Settle', '1', '1', '1', '0', ''),
    field('X-Edge-Prompt-Tokens', '50', '0', '-1', '1e3', '99999999999999999999'),
    field('X-Edge-Max-Tokens', '10', '200', 'many', ''),
    field('X-Edge-Model', 'm', 'n', ''),
    field('X-Original-Host', 'a.example.com', 'A.example.com:80', 'other', ''),
    field('Authorization', 'Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.', 'Bearer x', 'BEARER  x', 'Bearer x y', 'Bearer', 'Basic YTpi'),
    // Of another family, or a second time.
    ...SHAPES.flatMap(([, ...fields]) => fields),
  )
  const usual = [field('Host', 'edge', 'edge:8080', 'a.example.com', '[::1]:80'), field('X-Api-Key', caller, caller, `${caller}-2`, '')]
  return fc
    .constantFrom(...SHAPES)
    .chain(([startLine, ...fields]) =>
      fc.tuple(
        startLine,
        fc.tuple(...fields, ...usual),
        fc.option(field('Content-Length', '0'), { nil: '' }),
        fc.array(extra, { maxLength: 3 }),
        fc.nat(9),
      ),
    )
    .map(([startLine, own, length, more, turn]) => `${startLine}\r\n${rotate([...own, length, ...more], turn).join('')}\r\n`)
}

function field(name: string, ...values: readonly string[]): fc.Arbitrary<string> {
  const spelled = fc
    .constantFrom(name, name, name.toLowerCase(), name.toUpperCase())
    .chain((text) => fc.constantFrom(`${text}: `, `${text}: `, `${text}:`))
  return fc.tuple(spelled, fc.constantFrom(...values)).map(([start, value]) => `${start}${value}\r\n`)
}

/** Fields, request lines and ends that two readers might read in two ways. */
function oddHead(plain: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const withField = fc.tuple(plain, fc.constantFrom(...ODD_FIELDS)).map(([head, field]) => head.replace('\r\n', `\r\n${field}\r\n`))
  const withLast = fc.tuple(plain, fc.constantFrom(...ODD_FIELDS)).map(([head, field]) => `${head.slice(0, -2)}${field}\r\n\r\n`)
  const withBody = fc.tuple(withField, fc.constantFrom(...BODIES)).map(([head, body]) => head + body)
  const withStart = fc.tuple(plain, fc.constantFrom(...ODD_STARTS)).map(([head, start]) => head.replace(START_LINE, start))
  const withHost = fc.tuple(plain, fc.constantFrom(...ODD_HOSTS)).map(([head, host]) => head.replace(HOST_LINE, host))
  const withEnds = fc.tuple(plain, fc.constantFrom('\n', '\r', '\r\r\n', '\n\r\n')).map(([head, end]) => head.replaceAll('\r\n', end))
  const large = fc
    .tuple(plain, fc.constantFrom(8, 15.5, 16, 17, 63, 70), fc.constantFrom(20, 4000))
    .map(
      ([head, kib, width]) => `${head.slice(0, -2)}${`X-Pad: ${'p'.repeat(width)}\r\n`.repeat(Math.ceil((kib * 1024) / (width + 9)))}\r\n`,
    )
  const between = fc.tuple(fc.constantFrom('\r\n', '\n', '\r\n\r\n', ' ', '\0'), plain).map(([gap, head]) => gap + head)
  return fc.oneof(
    { weight: 4, arbitrary: withField },
    { weight: 2, arbitrary: withLast },
    { weight: 4, arbitrary: withBody },
    { weight: 3, arbitrary: withStart },
    { weight: 2, arbitrary: withHost },
    { weight: 1, arbitrary: withEnds },
    { weight: 1, arbitrary: large },
    { weight: 1, arbitrary: between },
  )
}

const BYTES = ['\r', '\n', '\0', ' ', '\t', ':', ',', ';', '\x7f', '\x80', '\xff', 'a', 'Z', '0', '\r\n', '\r\n\r\n', '\r\n ', '/', '_']

/** A few bytes too many, too few, or others. */
function mutated(head: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const edit = fc.record({ where: share, drop: fc.nat(2), add: fc.constantFrom('', ...BYTES) })
  return fc.tuple(head, fc.array(edit, { minLength: 1, maxLength: 3 })).map(([text, edits]) => edits.reduce(applyEdit, text))
}

function applyEdit(text: string, { where, drop, add }: { where: number; drop: number; add: string }): string {
  const at = Math.floor(where * text.length)
  return text.slice(0, at) + add + text.slice(at + drop)
}

function rotate<Item>(list: readonly Item[], by: number): Item[] {
  const at = by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}

function cuts(maxLength: number): fc.Arbitrary<number[]> {
  return fc.array(share, { maxLength })
}

function cut(text: string, shares: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, 'latin1')
  const places = [0, ...shares.map((part) => Math.floor(part * bytes.length)).sort((a, b) => a - b), bytes.length]
  const pieces = places.slice(1).map((end, i) => bytes.subarray(places[i]!, end))
  return pieces.filter((piece) => piece.length > 0)
}
