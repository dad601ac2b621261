import { describe, expect, test } from 'vitest'
import { bundle } from '../../../test/support/bundles/bundles.ts'
import { BACKENDS, complaintsAbout, routed } from '../../../test/support/bundles/routed-bundles.ts'
import { parseBundle } from '../parse.ts'

const TO_A = { backends: [{ name: 'a' }] }
const PLAIN_URL = 'expected a URL with http:// or https://, without user name, password, query and fragment'
const OTHER_HEADER = 'expected each key to be a header field that edge does not set or remove itself'

test('backends and routes have defaults', () => {
  const parsed = parseBundle(JSON.stringify(routed([{ ...TO_A, fallback: [{ name: 'b' }] }])))
  expect(parsed).toMatchObject({
    ok: true,
    bundle: { routes: [{ backends: [{ name: 'a', weight: 1 }], retry: { on: ['connect'], attempts: 1 } }] },
  })
})

describe('a backend is refused with', () => {
  test.each<[string, object, string]>([
    ['no URL', { url: undefined }, `backends.a.url: ${PLAIN_URL}, but it is missing`],
    ['a file URL', { url: 'file:///etc/passwd' }, `backends.a.url: ${PLAIN_URL}`],
    ['a password', { url: 'https://u:p@a.example' }, `backends.a.url: ${PLAIN_URL}`],
    ['a query', { url: 'https://a.example/?k=1' }, `backends.a.url: ${PLAIN_URL}`],
    ['a fragment', { url: 'https://a.example/#x' }, `backends.a.url: ${PLAIN_URL}`],
    ['a backslash', { url: 'https://a.example\\@evil.example' }, `backends.a.url: ${PLAIN_URL}`],
    ['a line break', { url: 'https://a.exa\nmple' }, `backends.a.url: ${PLAIN_URL}`],
    ['a port above 65535', { url: 'https://a.example:70000' }, `backends.a.url: ${PLAIN_URL}`],
    ['dots in its path', { url: 'https://a.example/x/../y' }, 'backends.a.url: expected a URL whose path has no escapes'],
    ['an escape in its path', { url: 'https://a.example/%61' }, 'backends.a.url: expected a URL whose path has no escapes'],
    ['a link-local address', { url: 'http://169.254.169.254/' }, 'backends.a.url: expected a host other than a link-local address'],
    ['a mapped link-local address', { url: 'http://[::ffff:a9fe:a9fe]/' }, 'backends.a.url: expected a host other than a link-local'],
    ['a decimal link-local address', { url: 'http://2852039166/' }, 'backends.a.url: expected a host other than a link-local address'],
    [
      'no time',
      { headers_timeout_seconds: 0 },
      'backends.a.headers_timeout_seconds: expected a number of seconds from 0.1 to 86400, got 0',
    ],
    ['an unknown field', { weight: 1 }, 'backends.a: unknown field "weight"'],
    ...['Host', 'content-length', 'Transfer-Encoding', 'transfer_encoding', 'Connection', 'Keep-Alive', 'TE', 'Trailer', 'Upgrade'].map(
      (name): [string, object, string] => [`the field ${name}`, { headers: { [name]: 'x' } }, `backends.a.headers: ${OTHER_HEADER}`],
    ),
    ...['Expect', 'X-Edge-Debug', 'x_edge_model', 'X-Forwarded-For', 'Forwarded', 'Accept-Encoding', 'Content-Encoding'].map(
      (name): [string, object, string] => [`the field ${name}`, { headers: { [name]: 'x' } }, `backends.a.headers: ${OTHER_HEADER}`],
    ),
    [
      'a name with a space',
      { headers: { 'x y': 'z' } },
      'expected each key to be the name of a header field, beginning with a letter or digit, got a text of 3',
    ],
    [
      'two spellings',
      { headers: { 'X-Key': '{A}', 'x-key': '{B}' } },
      'backends.a.headers["x-key"]: expected each field once; X-Key is the',
    ],
    ['an empty text', { headers: { 'x-a': '' } }, 'backends.a.headers["x-a"]: expected a text of 1 to 4096 printable ASCII characters'],
    [
      'a line break in a text',
      { headers: { 'x-a': 'a\r\nb: c' } },
      'printable ASCII characters that begins and ends with a visible one, got a',
    ],
    ['a space at the end', { headers: { 'x-a': 'a ' } }, 'printable ASCII characters that begins and ends with a visible one'],
    ['a stray brace', { headers: { 'x-a': 'Bearer {key}' } }, 'expected a text in which each secret is {NAME}, of upper-case letters'],
    ['an open brace', { headers: { 'x-a': 'Bearer {KEY' } }, 'expected a text in which each secret is {NAME}, of upper-case letters'],
    [
      'a secret over http',
      { url: 'http://a.example', headers: { authorization: 'Bearer {KEY}' } },
      'backends.a.headers.authorization: expected a url with https:// for a field with a secret: over http:// it would be sent in the clear',
    ],
  ])('%s', (_what, changed, problem) => {
    const { problems } = complaintsAbout(routed([TO_A], { a: { url: 'https://a.example', ...changed } }))
    expect(problems).toEqual([expect.stringContaining(problem)])
  })

  test.each(['http://127.0.0.1:8080', 'http://localhost', 'http://[::1]:1', 'https://a.example'])(
    'nothing: a secret may go to %s',
    (url) => {
      expect(complaintsAbout(routed([TO_A], { a: { url, headers: { authorization: 'Bearer {KEY}' } } }))).toEqual({
        problems: [],
        warnings: [],
      })
    },
  )

  test('a problem never quotes the text of a header, what stands for its name, or a URL with a password or a key', () => {
    const secret = 'sk-canary'
    const wrong = [
      { 'x-a': `${secret}\n` },
      { 'x-a': [secret] },
      { 'x-a': `{${secret}}` },
      { [`authorization:Bearer ${secret}`]: null },
      { [`Bearer ${secret}`]: 'x' },
      { host: secret },
    ]
    for (const headers of wrong) {
      const { problems } = complaintsAbout(routed([TO_A], { a: { url: 'https://a.example', headers } }))
      expect(problems.length).toBeGreaterThan(0)
      expect(problems.join('\n')).not.toContain(secret)
    }
    for (const url of [`https://u:${secret}@a.example`, `https://a.example/?key=${secret}`, `https://a.example/#${secret}`]) {
      const { problems } = complaintsAbout(routed([TO_A], { a: { url } }))
      expect(problems).toEqual([expect.stringMatching(/^backends\.a\.url: expected a URL with .*, got a text of \d+ characters$/)])
    }
  })

  test.each(['__proto__', '-a', 'a b', 'a/b', ''])('the name %j', (name) => {
    const backends = JSON.parse(`{${JSON.stringify(name)}:{"url":"https://a.example"},"a":{"url":"https://a.example"}}`) as object
    expect(complaintsAbout(routed([TO_A], backends)).problems[0]).toMatch(
      /^backends: (?:unknown field|expected each key to be a name of 1 to 64)/,
    )
  })

  test('more than 64 backends, or none', () => {
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`b${i}`, { url: 'https://a.example' }]))
    expect(complaintsAbout(routed([{ backends: [{ name: 'b0' }] }], many)).problems).toEqual([
      'backends: expected at most 64 backends, got an object',
    ])
    expect(complaintsAbout({ ...bundle(1), backends: {} }).problems).toEqual([
      'backends: expected at least one backend (leave `backends` out to have none), got an object',
    ])
  })
})

describe('a route is refused with', () => {
  test.each<[string, object, string]>([
    ['no backends', {}, 'routes[0].backends: expected a list of backends, but it is missing'],
    ['an empty list', { backends: [] }, 'routes[0].backends: expected at least one backend, got an empty list'],
    [
      'an empty fallback',
      { ...TO_A, fallback: [] },
      'routes[0].fallback: expected at least one backend (leave `fallback` out to have none)',
    ],
    ['an empty match', { ...TO_A, match: {} }, 'routes[0].match: expected at least one key (leave `match` out to cover everybody)'],
    [
      'weights of 0 everywhere',
      {
        backends: [
          { name: 'a', weight: 0 },
          { name: 'b', weight: 0 },
        ],
      },
      'routes[0].backends: expected at least one backend with a weight above 0',
    ],
    [
      'a negative weight',
      { backends: [{ name: 'a', weight: -1 }] },
      'routes[0].backends[0].weight: expected a whole number from 0 to 1000, got -1',
    ],
    [
      'a weight of a fallback',
      { ...TO_A, fallback: [{ name: 'b', weight: 2 }] },
      'routes[0].fallback[0].weight: expected nothing here: fallbacks are',
    ],
    [
      'an unknown name',
      { backends: [{ name: 'opnai' }] },
      `routes[0].backends[0].name: expected the name of one of the bundle's backends, got "opnai" — did you mean "openai"?`,
    ],
    [
      'an unknown fallback',
      { ...TO_A, fallback: [{ name: 'zz' }] },
      `routes[0].fallback[0].name: expected the name of one of the bundle's`,
    ],
    [
      'a backend twice',
      { backends: [{ name: 'a' }, { name: 'a', weight: 2 }] },
      'routes[0].backends[1]: "a" is already in routes[0].backends[0], and nothing is tried twice: remove it, or give one a model',
    ],
    [
      'a backend as its own fallback',
      { ...TO_A, fallback: [{ name: 'a' }] },
      'routes[0].fallback[0]: "a" is already in routes[0].backends[0]',
    ],
    [
      'a model with a line break',
      { backends: [{ name: 'a', model: 'x\ny' }] },
      'routes[0].backends[0].model: expected a string of 1 to 256 printable',
    ],
    [
      'a status below 400',
      { ...TO_A, retry: { on: [200] } },
      'routes[0].retry.on[0]: expected "connect", "timeout", "5xx", or a status from 400',
    ],
    [
      '4xx',
      { ...TO_A, retry: { on: ['4xx'] } },
      'routes[0].retry.on[0]: expected "connect", "timeout", "5xx", or a status from 400 to 599',
    ],
    ['a failure twice', { ...TO_A, retry: { on: [429, '429'] } }, 'routes[0].retry.on: expected each once, got a list'],
    ['no failures', { ...TO_A, retry: { on: [] } }, 'routes[0].retry.on: expected at least one of them (for no retries write attempts: 0)'],
    ['many attempts', { ...TO_A, retry: { attempts: 11 } }, 'routes[0].retry.attempts: expected a whole number from 0 to 10, got 11'],
    ['a domain', { ...TO_A, selector: { domain: 'x' } }, 'routes[0].selector: unknown field "domain"'],
    [
      'two paths',
      { ...TO_A, selector: { pathPrefix: '/', pathExact: '/' } },
      'routes[0].selector: expected either pathPrefix or pathExact, not both',
    ],
    [
      'no keys',
      { ...TO_A, stick_to: [] },
      'routes[0].stick_to: expected at least one key (leave `stick_to` out to choose by weight alone)',
    ],
    ['a key twice', { ...TO_A, stick_to: ['header:A', 'header:a'] }, 'routes[0].stick_to[1]: expected each key once, got "header:a" again'],
    [
      'a caller that nobody verifies',
      { ...TO_A, stick_to: ['caller:id'] },
      'routes[0].stick_to[0]: "caller:id" needs `callers` in the bundle: add callers.jwt to verify tokens, or callers.keys to issue keys',
    ],
    [
      'a match on such a caller',
      { ...TO_A, match: { 'caller:team': 'x' } },
      'routes[0].match["caller:team"]: "caller:team" needs `callers` in',
    ],
    [
      'a descriptor',
      { ...TO_A, match: { 'descriptor:x': 'y' } },
      'routes[0].match["descriptor:x"]: expected a key that requests to reverse_proxy have, got "descriptor:x": only calls of the rate limit',
    ],
    [
      'a context',
      { ...TO_A, stick_to: ['context:x'] },
      'routes[0].stick_to[0]: expected a key that requests to reverse_proxy have, got "context:x"',
    ],
  ])('%s', (_what, route, problem) => {
    const { problems } = complaintsAbout(routed([route], { ...BACKENDS, openai: { url: 'https://openai.example' } }))
    expect(problems).toEqual([expect.stringContaining(problem)])
  })

  test('a match, without quoting its patterns', () => {
    const { problems } = complaintsAbout(routed([{ ...TO_A, match: { bearer: ['sk-canary', 5] } }]))
    expect(problems).toHaveLength(1)
    expect(problems[0]).not.toContain('sk-canary')
  })

  test('a caller label that no issuer defines', () => {
    const callers = { jwt: [{ name: 'okta', issuer: 'i', audiences: ['a'], jwks_file: 'k.json', labels: { team: { claim: 'team' } } }] }
    const { problems } = complaintsAbout({ ...routed([{ ...TO_A, stick_to: ['caller:id', 'caller:taem'] }]), callers })
    expect(problems).toEqual([
      'routes[0].stick_to[1]: no entry of callers.jwt defines the label of "caller:taem": did you mean "caller:team"?',
    ])
  })

  test('no routes, no backends to name, or too much in all routes', () => {
    expect(complaintsAbout(routed([])).problems).toEqual([
      'routes: expected at least one route (leave `routes` out to have none), got an empty list',
    ])
    expect(complaintsAbout({ ...bundle(1), routes: [TO_A] }).problems).toEqual([
      `routes[0].backends[0].name: expected the name of one of the bundle's backends (it has none), got "a"`,
    ])
    expect(complaintsAbout(routed(Array.from({ length: 1001 }, () => TO_A))).problems).toEqual([
      'routes: expected at most 1000 routes, got a list',
    ])
    const values = Array.from({ length: 20_001 }, (_, i) => `m${i}`)
    expect(complaintsAbout(routed([{ ...TO_A, match: { 'llm:model': values } }])).problems).toEqual([
      'routes: expected at most 20000 patterns and excepted paths in all routes, got 20001',
    ])
    const hosts = Array.from({ length: 201 }, (_, i) => `h${i}.example`)
    const methods = Array.from({ length: 100 }, (_, i) => `M${i}`)
    expect(complaintsAbout(routed([{ ...TO_A, selector: { hosts, methods } }])).problems).toEqual([
      'routes: expected at most 20000 pairs of a host and a method in all routes, got 20100',
    ])
  })
})
