import fc from 'fast-check'
import { expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, jwt, matching, policy } from '../support/bundles/bundles.ts'
import { authorization, check } from '../support/grpc/ext-authz.ts'
import { runs } from '../support/run/property-runs.ts'
import { type AskedRequest, DECISION, questionBytes } from '../support/service/doors.ts'
import { exchange } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { readAnswers } from '../support/service/wire.ts'

const KEYS = ['header:x-key', 'bearer', 'jwt:sub', 'cookie:sid', 'query:k', 'path:1', 'ip:address', 'ip:tor']
const RULES = bundle(
  1,
  policy('keys', { rules: KEYS.map((key, i) => bucketRule(key, [key], 2 + i)) }),
  policy('hosts', { selector: { pathPrefix: '/a', hosts: ['*.example.com'] }, rules: [bucketRule('host', [], 3)] }),
  policy('some', {
    selector: { methods: ['POST'] },
    rules: [blockRule('b', { 'header:x-key': 'b*' }), matching('else', bucketRule('others', [], 20))],
  }),
  policy('shadow', { mode: 'shadow', rules: [bucketRule('r', ['header:x-key'], 1)] }),
)

/** Every bucket gets a token a second. */
const FULL_AGAIN_MS = 60_000

const oneOf = (...texts: readonly string[]): fc.Arbitrary<string> => fc.constantFrom(...texts)
const field = fc.oneof(
  fc.tuple(oneOf('X-Key', 'x-key'), oneOf('a', 'bc', 'a, b', 'd\xfcr', ' a\t', '')),
  fc.tuple(oneOf('Authorization'), oneOf('Bearer t', `bearer ${jwt({ sub: 'joe' })}`, 'Basic x', 'Bearer a b')),
  fc.tuple(oneOf('Cookie'), oneOf('sid=1', 'sid="1"; a=b', 'a=b', 'sid=1; sid=2')),
  fc.tuple(oneOf('X-Forwarded-For'), oneOf('203.0.113.1', '203.0.113.1, 10.0.0.1', '2001:db8::1', 'unknown')),
  fc.tuple(oneOf('X-Tor-Exit'), oneOf('true', '0', 'maybe')),
)
const request: fc.Arbitrary<AskedRequest> = fc.record(
  {
    method: oneOf('GET', 'POST'),
    uri: oneOf('/', '/a?k=1', '/%61/b?k=%31', '/b?k=1&k=2', '//a', 'http://x/a?k=2'),
    host: oneOf('api.example.com', 'API.example.com:80', 'example.com', ''),
    fields: fc.array(field, { maxLength: 3 }),
  },
  { requiredKeys: ['method', 'uri', 'fields'] },
)

const ALLOWED: AskedRequest = { method: 'GET', uri: '/', fields: [['X-Key', 'a']] }
const REJECTED = ALLOWED
const BLOCKED: AskedRequest = { method: 'POST', uri: '/', fields: [['X-Key', 'bc']] }
const REFUSED: AskedRequest = { method: 'GET', uri: '/a', fields: [] } // a policy selects by host

test('Check answers as /v1/decision does, whatever is asked, one request after the other', async () => {
  const clock = new ManualClock()
  const http = await running({ bundle: RULES, clock })
  const grpc = await running({ bundle: RULES, clock, env: { EDGE_GRPC_PORT: '0' } })
  const client = authorization(grpc.grpcPort)
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 5, maxLength: 40 }), async (requests) => {
      clock.advance(FULL_AGAIN_MS)
      expect(await overGrpc(client, requests)).toEqual(await overHttp(http.port, requests))
    }),
    { numRuns: runs(2), examples: [[[ALLOWED, ALLOWED, REJECTED, BLOCKED, REFUSED]]] },
  )
})

type Seen = readonly [status: number, headers: Readonly<Record<string, string>>]

async function overHttp(port: number, requests: readonly AskedRequest[]): Promise<Seen[]> {
  const bytes = requests.map((each, i) => questionBytes(DECISION, each, { isLast: i === requests.length - 1 }))
  const answers = readAnswers(await exchange(port, Buffer.concat(bytes)))
  return answers.map(({ status, headers }) => {
    const { date, connection, 'keep-alive': keepAlive, 'content-length': length, ...own } = headers
    return [status, own]
  })
}

async function overGrpc(client: ReturnType<typeof authorization>, requests: readonly AskedRequest[]): Promise<Seen[]> {
  const seen: Seen[] = []
  for (const { method = '', uri = '', host = '', fields = [] } of requests) {
    const { status, headers } = await check(client, { method, path: uri, host, fields })
    seen.push([status, headers])
  }
  return seen
}
