import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isForwardingField } from '../http1/field-name.ts'
import { connectionNames, hasMember } from '../http1/header-fields.ts'
import { withoutSessionCookies } from '../sessions/session-cookies.ts'
import { linesOf, type Peer } from './downstream.ts'
import { ProxiedRequest } from './proxied-request.ts'
import { type RequestHeadOptions, requestHead } from './request-head.ts'
import { RequestHeadReader } from './wire/request-head-reader.ts'

const NAMES = [
  'Accept',
  'accept-encoding',
  'Cookie',
  'Expect',
  'Forwarded',
  'HTTP2-Settings',
  'Keep-Alive',
  'Proxy-Authorization',
  'TE',
  'Traceparent',
  'tracestate',
  'Trailer',
  'X-Any',
  'X-Edge-Debug-Secret',
  'X-Forwarded-For',
  'x-forwarded-host',
  'X-Forwarded-Proto',
  'X_Forwarded_For',
  'X-Real-IP',
]
const VALUES = ['', 'a', 'b, c', 'trailers', 'trailers;q=1', '100-continue', 'edge_dbg=1', 'a=b; edge_dbg=1; c=d', 'a=b; c=d', '\xfc\xff']

const fieldLists = fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...VALUES)), { maxLength: 8 })
const heads = fc.record({
  fields: fieldLists,
  connection: fc.constantFrom(undefined, 'keep-alive', 'close', 'X-Any', 'accept, cookie', 'TE'),
  framing: fc.constantFrom(undefined, ['Content-Length', '0'], ['Content-Length', '12'], ['Transfer-Encoding', 'chunked']),
  hostAt: fc.nat(10),
})
const options: fc.Arbitrary<RequestHeadOptions> = fc.record({
  host: fc.constant('backend:1'),
  target: fc.constant('/base/a'),
  bodyLength: fc.constantFrom(undefined, 12),
  asksForIdentity: fc.boolean(),
  trace: fc.constantFrom(undefined, { traceparent: '00-1-2-01', isNew: true }, { traceparent: '00-1-2-01', isNew: false }),
})

test('the head that goes on is the one that is put together field by field, with the text of its lines at hand or not', () => {
  fc.assert(
    fc.property(heads, options, fc.boolean(), ({ fields, connection, framing, hostAt }, given, isTrusted) => {
      const all = fields.flat()
      all.splice(2 * Math.min(hostAt, fields.length), 0, 'Host', 'example.com')
      if (connection !== undefined) all.push('Connection', connection)
      if (framing !== undefined) all.unshift(...framing)
      const peer = { address: '192.0.2.1', scheme: 'http' as const, isTrusted }
      for (const lines of [undefined, linesOf(all)]) {
        const request = ProxiedRequest.read({ method: 'POST', target: '/a', version: '1.1', fields: all, lines }, false)
        expect(requestHead(request as ProxiedRequest, peer, given)).toBe(fieldByField(request as ProxiedRequest, peer, given))
      }
    }),
    { numRuns: 1000 },
  )
})

test('what a client wrote without the usual space goes on as what it wrote with it', () => {
  const reader = new RequestHeadReader()
  for (const separators of [': : : ', '::::', ': :: ', ':: :', ':: : ']) {
    const [first, second, third] = separators.match(/: ?/g)!
    const bytes = Buffer.from(`GET / HTTP/1.1\r\nHost${first}a\r\nX-Any${second}b\r\nAccept${third}\r\n\r\n`)
    expect(reader.read(bytes, 0, bytes.length)).toBe(bytes.length)
    const request = ProxiedRequest.read(reader.received, false) as ProxiedRequest
    const head = requestHead(request, { address: '192.0.2.1', scheme: 'http', isTrusted: false }, NO_OPTIONS)
    expect(head).toBe(
      'GET / HTTP/1.1\r\nHost: backend\r\nX-Any: b\r\nAccept: \r\nX-Forwarded-For: 192.0.2.1\r\n' +
        'X-Forwarded-Host: a\r\nX-Forwarded-Proto: http\r\nVia: 1.1 edge\r\n\r\n',
    )
  }
})

const NO_OPTIONS = { host: 'backend', target: '/', bodyLength: undefined, asksForIdentity: false, trace: undefined }

const OWN = ['host', 'content-length', 'expect', 'trailer', 'http2-settings', 'x-edge-debug-secret']
const HOP_BY_HOP = ['connection', 'keep-alive', 'te', 'transfer-encoding', 'upgrade', 'proxy-authorization']

/** What it says, in the plainest way. */
function fieldByField(
  request: ProxiedRequest,
  peer: Peer,
  { host, target, asksForIdentity, trace, bodyLength }: RequestHeadOptions,
): string {
  const { fields, isChunked, contentLength } = request
  const named = connectionNames(request.connection)
  const all = fields.flatMap((name, i) => (i % 2 === 0 ? [{ name, lower: name.toLowerCase(), value: fields[i + 1]! }] : []))
  const said = (name: string): string[] => (peer.isTrusted ? all.filter(({ lower }) => lower === name).map(({ value }) => value) : [])
  const kept = all.flatMap(({ name, lower, value }) => {
    if (OWN.includes(lower) || HOP_BY_HOP.includes(lower) || named?.has(lower)) return []
    if (['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'].includes(lower)) return []
    if (!peer.isTrusted && isForwardingField(lower)) return []
    if (lower === 'accept-encoding' && asksForIdentity) return []
    if (trace !== undefined && (lower === 'traceparent' || (lower === 'tracestate' && trace.isNew))) return []
    const own = lower === 'cookie' ? withoutSessionCookies(value) : value
    return own === undefined ? [] : [`${name}: ${own}`]
  })
  const asksForTrailers = all.some(({ lower, value }) => lower === 'te' && hasMember(value, 'trailers'))
  const length = bodyLength ?? contentLength
  return [
    `POST ${target} HTTP/1.1`,
    `Host: ${host}`,
    ...kept,
    ...(asksForIdentity ? ['Accept-Encoding: identity'] : []),
    ...(trace === undefined ? [] : [`traceparent: ${trace.traceparent}`]),
    ...(asksForTrailers ? ['Connection: TE', 'TE: trailers'] : []),
    `X-Forwarded-For: ${[...said('x-forwarded-for'), peer.address].join(', ')}`,
    `X-Forwarded-Host: ${said('x-forwarded-host')[0] ?? 'example.com'}`,
    `X-Forwarded-Proto: ${said('x-forwarded-proto')[0] ?? 'http'}`,
    'Via: 1.1 edge',
    ...(isChunked && bodyLength === undefined ? ['Transfer-Encoding: chunked'] : []),
    ...((isChunked || contentLength !== undefined) && length !== undefined ? [`Content-Length: ${length}`] : []),
    '',
    '',
  ].join('\r\n')
}
