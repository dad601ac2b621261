// What is called, as Envoy writes it, and how its answer is read.
import { field, message, numberField } from './protobuf.mjs'

export const DOMAIN = 'bench'
/** The key of the one descriptor. */
export const DESCRIPTOR = 'api_key'

const FIELDS = {
  ':authority': 'api.example.com',
  ':method': 'GET',
  ':path': '/api/v1/users/42?full=1',
  ':scheme': 'https',
  accept: '*/*',
  'user-agent': 'curl/8.5.0',
  'x-forwarded-for': '198.51.100.7',
  'x-forwarded-proto': 'https',
}

export const METHODS = {
  shouldRateLimit: {
    path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    /** RateLimitRequest: one descriptor with one entry. */
    request: ({ key }) => message(field(1, DOMAIN), field(2, field(1, message(field(1, DESCRIPTOR), field(2, key))))),
    /** RateLimitResponse.overall_code, its first field: 1 is OK, 2 is OVER_LIMIT. */
    outcome: (bytes, at) => (bytes[at] !== 0x08 ? 'failed' : bytes[at + 1] === 1 ? 'allowed' : 'rejected'),
  },
  check: {
    path: '/envoy.service.auth.v3.Authorization/Check',
    /** CheckRequest: what Envoy tells of a request with a few header fields. */
    request: ({ key, requestId, traceparent }) => {
      const fields = { ...FIELDS, 'x-api-key': key, 'x-request-id': requestId, traceparent }
      const headers = Object.entries(fields).map(([name, value]) => field(3, message(field(1, name), field(2, value))))
      const http = message(
        field(1, requestId),
        field(2, FIELDS[':method']),
        ...headers,
        field(4, FIELDS[':path']),
        field(5, FIELDS[':authority']),
        field(6, FIELDS[':scheme']),
        field(10, 'HTTP/1.1'),
      )
      const source = field(1, field(1, message(field(2, '198.51.100.7'), numberField(3, 40_000))))
      return field(1, message(field(1, source), field(4, field(2, http))))
    },
    /** CheckResponse.status, its first field: it has content only where its code is not 0. */
    outcome: (bytes, at) => (bytes[at] !== 0x0a ? 'allowed' : bytes[at + 1] === 0 ? 'allowed' : 'rejected'),
  },
}
