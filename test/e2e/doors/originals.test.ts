import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { exchange } from '../../support/service/http.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { type ListeningServer, startServer } from '../../support/service/two-wires.ts'
import { readAnswers } from '../../support/service/wire.ts'

const rules = [bucketRule('r', [], 1_000_000)]

// The name in RateLimit is the id of the policy that covers the request.
const BUNDLE = bundle(
  1,
  policy('root', { selector: { pathExact: '/' }, rules }),
  policy('foo', { selector: { pathExact: '/foo' }, rules }),
  policy('posted', { selector: { pathPrefix: '/posted', methods: ['POST'] }, rules }),
  policy('patched', { selector: { pathPrefix: '/posted', methods: ['PATCH'] }, rules }),
  policy('host', { selector: { pathPrefix: '/by-host', hosts: ['a.example.com'] }, rules }),
  policy('query', {
    selector: { pathPrefix: '/query' },
    rules: [
      {
        name: 'q',
        limit_keys: ['query:q'],
        match: { 'query:q': 'yes' },
        algorithm: 'token_bucket',
        algorithm_config: { tokens_per_second: 1, burst: 1e6 },
      },
    ],
  }),
)

type Case = readonly [startLine: string, fields: readonly string[], outcome: string]

const FORWARD = 'GET /v1/forward-auth'
const AUTH = 'GET /v1/auth-request'

const FORWARD_AUTH: readonly Case[] = [
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo'], 'foo'],
  [FORWARD, ['x-forwarded-method: GET', 'X-FORWARDED-URI: /foo?a=b'], 'foo'],
  [`${FORWARD}?x=/other`, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo'], 'foo'],
  ['DELETE /v1/forward-auth', ['X-Forwarded-Method: POST', 'X-Forwarded-Uri: /posted'], 'posted'],
  ['POST /v1/forward-auth', ['X-Forwarded-Method: patch', 'X-Forwarded-Uri: /posted'], 'patched'],
  ['POST /v1/forward-auth', ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /posted'], 'none'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: //x/../%66oo'], 'foo'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: http://elsewhere/foo'], 'foo'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: ?'], 'root'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /query?q=yes'], 'query'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host', 'X-Forwarded-Host: A.example.com:443'], 'host'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host', 'X-Forwarded-Host: b.example.com'], 'none'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host'], 'missing_original_host'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host', 'X-Forwarded-Host:'], 'missing_original_host'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host', 'X-Forwarded-Host: b, a.example.com'], 'missing_original_host'],
  // The host of the URI is not the one that counts.
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: http://a.example.com/by-host'], 'missing_original_host'],
  [FORWARD, ['X-Forwarded-Uri: /foo'], 'missing_original_method'],
  [FORWARD, ['X-Forwarded-Method:', 'X-Forwarded-Uri: /foo'], 'missing_original_method'],
  [FORWARD, ['X-Forwarded-Method: GET'], 'missing_original_uri'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri:'], 'missing_original_uri'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo'], 'repeated_original_method'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo', 'x-forwarded-uri: /free'], 'repeated_original_uri'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo', 'X-Forwarded-Host: a', 'X-Forwarded-Host: a'], 'repeated_original_host'],
]

const AUTH_REQUEST: readonly Case[] = [
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com/foo'], 'foo'],
  [AUTH, ['X-Original-Method: GET', 'x-original-url: HTTP://[::1]:8080/foo?a=/b'], 'foo'],
  [`${AUTH}?x=1`, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com'], 'root'],
  ['HEAD /v1/auth-request', ['X-Original-Method: POST', 'X-Original-URL: https://a.example.com/posted/x'], 'posted'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com/query?q=yes'], 'query'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com:8443/by-host'], 'host'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://b.example.com/by-host'], 'none'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https:///foo'], 'foo'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https:///by-host'], 'missing_original_host'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://u@a.example.com/by-host'], 'missing_original_host'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com//foo'], 'foo'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com/http://b/foo'], 'none'],
  // A client chose the host so that its path would be taken for a query, or for a fragment.
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com?/foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com#/foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a.example.com?x'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: /foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: //a.example.com/foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: ://a.example.com/foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: ftp://a.example.com/foo'], 'bad_original_url'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: http:/'], 'bad_original_url'],
  [AUTH, ['X-Original-URL: https://a.example.com/foo'], 'missing_original_method'],
  [AUTH, ['X-Original-Method: GET'], 'missing_original_uri'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL:'], 'missing_original_uri'],
  [AUTH, ['X-Original-Method: a', 'X-Original-URL: https://a/foo', 'X-Original-Method: b'], 'repeated_original_method'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URL: https://a/foo', 'X-Original-URL: https://a/foo'], 'repeated_original_uri'],
]

const EXT_AUTHZ: readonly Case[] = [
  ['GET /v1/ext-authz', [], 'root'],
  ['GET /v1/ext-authz/', [], 'root'],
  ['GET /v1/ext-authz?x=1', [], 'root'],
  ['GET /v1/ext-authz/foo', [], 'foo'],
  ['GET /v1/ext-authz/foo?x=1', [], 'foo'],
  ['GET /v1/ext-authz//foo', [], 'foo'],
  ['GET /v1/ext-authz/x/../%66oo', [], 'foo'],
  // The dots belong to the original path, whose root they do not leave.
  ['GET /v1/ext-authz/../foo', [], 'foo'],
  ['GET /v1/ext-authz/http://b/foo', [], 'none'],
  ['GET /v1/ext-authz/v1/ext-authz/foo', [], 'none'],
  ['GET /v1/ext-authz/query?q=yes', [], 'query'],
  ['POST /v1/ext-authz/posted', [], 'posted'],
  ['PATCH /v1/ext-authz/posted', ['X-HTTP-Method-Override: POST'], 'patched'],
  ['GET /v1/ext-authz/by-host', ['Host: a.example.com'], 'host'],
  ['GET /v1/ext-authz/by-host', ['Host: b.example.com'], 'none'],
  // RFC 9112 3.2.2: the host of an absolute target counts.
  ['GET http://a.example.com/v1/ext-authz/by-host', ['Host: b.example.com'], 'host'],
  ['GET http://b.example.com/v1/ext-authz/by-host', ['Host: a.example.com'], 'none'],
]

/** What belongs to another door means nothing: neither beside the door's own fields nor in their place. */
const OTHER_FAMILIES: readonly Case[] = [
  [FORWARD, ['X-Original-Method: GET', 'X-Original-URI: /foo', 'X-Original-URL: http://a/foo'], 'missing_original_method'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /free', 'X-Original-URI: /foo', 'X-Original-URI: /foo'], 'none'],
  [FORWARD, ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /by-host', 'X-Original-Host: a.example.com'], 'missing_original_host'],
  [AUTH, ['X-Original-Method: GET', 'X-Original-URI: /foo', 'X-Forwarded-Uri: /foo'], 'missing_original_uri'],
  [AUTH, ['X-Forwarded-Method: GET', 'X-Original-URL: http://a/foo'], 'missing_original_method'],
  [
    AUTH,
    ['X-Original-Method: GET', 'X-Original-URL: http://b/by-host', 'X-Original-Host: a.example.com', 'X-Forwarded-Host: a.example.com'],
    'none',
  ],
  ['GET /v1/ext-authz/free', ['X-Forwarded-Uri: /foo', 'X-Original-URI: /foo', 'X-Original-URL: http://a/foo'], 'none'],
  ['GET /v1/ext-authz/posted', ['X-Forwarded-Method: POST', 'X-Original-Method: POST', 'X-Original-Method: POST'], 'none'],
  ['GET /v1/ext-authz/by-host', ['Host: b', 'X-Forwarded-Host: a.example.com', 'X-Original-Host: a.example.com'], 'none'],
  ['POST /v1/decision', ['X-Forwarded-Method: GET', 'X-Forwarded-Uri: /foo'], 'missing_original_method'],
  ['POST /v1/decision', ['X-Original-Method: GET', 'X-Original-URL: http://a/foo'], 'missing_original_uri'],
  ['POST /v1/decision', ['X-Original-Method: GET', 'X-Original-URI: /by-host', 'X-Forwarded-Host: a.example.com'], 'missing_original_host'],
]

describe.each([
  ['the fast wire', true],
  ['node:http', false],
])('on %s', (_wire, hasFastWire) => {
  let server: ListeningServer
  let decisions = 0
  beforeAll(async () => {
    server = await startServer(BUNDLE, { hasFastWire })
  })
  afterAll(() => server.close())

  describe.each([
    ['forward-auth reads X-Forwarded-*', FORWARD_AUTH],
    ['auth-request reads X-Original-URL and -Method', AUTH_REQUEST],
    ['ext-authz reads the question itself', EXT_AUTHZ],
    ['another family means nothing', OTHER_FAMILIES],
  ])('%s', (_what, cases) => {
    test.each(cases)('%s %j: %s', async (startLine, fields, outcome) => {
      const host = fields.some((field) => field.startsWith('Host:')) ? [] : ['Host: edge']
      const head = [`${startLine} HTTP/1.1`, ...host, ...fields, 'Connection: close'].join('\r\n')
      // Two questions: the first is read by the wire in question, the last closes the connection, which is for node:http.
      const [first, last] = readAnswers(await exchange(server.port, `${head.replace('\r\nConnection: close', '')}\r\n\r\n${head}\r\n\r\n`))
      expect(outcomeOf(first!)).toBe(outcome)
      expect(outcomeOf(last!)).toBe(outcome)
      expect(first!.headers['content-length']).toBe('0')
      expect(first!.status).toBe(isRefused(outcome) ? 400 : 200)
      if (!isRefused(outcome)) decisions += 2
    })
  })

  test('what is refused takes nothing', async () => {
    expect((await metricsOf(server.port)).sum('edge_decisions_total')).toBe(decisions)
  })
})

function isRefused(outcome: string): boolean {
  return outcome.includes('_original_')
}

function outcomeOf({ status, headers }: { readonly status: number; readonly headers: Readonly<Record<string, string>> }): string {
  if (status !== 200) return headers['x-edge-reason'] ?? String(status)
  return /^"(.+?)"/.exec(headers['ratelimit'] ?? '')?.[1] ?? 'none'
}
