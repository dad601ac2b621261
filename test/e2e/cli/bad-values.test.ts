import { describe, expect, test } from 'vitest'
import { finished } from '../../support/service/running.ts'

const LOOPBACK = { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1' }

const BAD: readonly (readonly [variable: string, values: readonly string[]])[] = [
  ['EDGE_PORT', ['http', '-1', '65536', '80.5', '0x50', '8080 ', '٨٠']],
  ['EDGE_HOST', ['http://127.0.0.1', 'a b', '127.0.0.1/8']],
  ['EDGE_MODE', ['proxy', 'DECISION_SERVICE', 'constructor']],
  ['EDGE_BACKEND_URL', ['backend:80', 'ftp://backend', '//backend', 'http://']],
  [
    'EDGE_CONFIG_URL',
    ['bundles.example/b', 'ftp://bundles.example/b', 'file:///b.json', 'http://user:pw@bundles.example/b', 'http://h/#f'],
  ],
  ['EDGE_CONFIG_TOKEN', ['two words', 'line\nbreak', 'schlüssel']],
  ['EDGE_CONFIG_POLL_INTERVAL', ['0', '-1', '30s', '0.01', '1e1', '86401', '.5']],
  ['EDGE_CONFIG_PUBLIC_KEY', ['secret', '/etc/edge.pub', 'AAAA', '-----BEGIN PRIVATE KEY-----']],
  ['EDGE_LOG_LEVEL', ['verbose', 'INFO', '30', '__proto__']],
  ['EDGE_ADMIN_PORT', ['admin', '70000', '-5']],
  ['EDGE_TRUSTED_PROXIES', ['10.0.0.0/33', 'everybody', '10.0.0.1:80', 'loopback,10.0.0.0/8,x']],
  ['EDGE_STORE_SIZE', ['big', '-1', '0', '1', '64mm', '64 m', '1e9', '9g', '99999999999999999999']],
  ['EDGE_WORKERS', ['0', '-1', '1.5', 'many', '255', '1e1', ' 2', '0x2', '1000']],
  ['EDGE_REDIS_URL', ['localhost:6379', 'http://localhost', 'redis://', 'redis://a,b/1', 'redis+sentinel://a']],
  ['EDGE_REDIS_PREFIX', ['edge :', 'größe:', 'x'.repeat(65)]],
  ['EDGE_REDIS_MODE', ['fast', 'EXACT']],
  ['EDGE_REDIS_LEASE_MS', ['0', '49', '60001', '1s']],
  ['EDGE_REDIS_TIMEOUT_MS', ['0', '60001', '-1', '50ms']],
  ['EDGE_REDIS_FAILURE_MODE', ['closed ', 'deny']],
  ['EDGE_KEEPALIVE_MS', ['0', '-1', '1.5', '75s', '1e3', '99999999999']],
  ['EDGE_HEADERS_TIMEOUT_MS', ['0', '-1', 'never']],
  ['EDGE_REQUEST_TIMEOUT_MS', ['0', '5m']],
  ['EDGE_DRAIN_MS', ['soon', '-1', 'NaN', 'Infinity']],
  ['EDGE_SHUTDOWN_MS', ['never', '30s', '0x10']],
]

/** Each bad value is in at least one of these environments, in which nothing is right. */
const ENVIRONMENTS = Array.from({ length: Math.max(...BAD.map(([, values]) => values.length)) }, (_, i) =>
  Object.fromEntries(BAD.map(([variable, values]) => [variable, values[i % values.length]!])),
)

describe.concurrent('bad values', () => {
  test.for(ENVIRONMENTS)('are all named in one message, and nothing listens: %j', async (env, t) => {
    const { status, stdout, stderr } = await finished(['serve'], env, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    const [heading, ...lines] = stderr.trimEnd().split('\n')
    expect(heading).toBe('edge cannot start:')
    expect(lines.map((line) => line.trim().split(': expected ')[0])).toEqual(BAD.map(([variable]) => variable))
  })

  test.for(BAD)('%s: one of it alone is enough', async ([variable, values], t) => {
    const { status, stdout, stderr } = await finished(['serve'], { ...LOOPBACK, [variable]: values[0]! }, t)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^edge cannot start:\n  ${variable}: expected .*\n$`))
  })

  test.for(['constructor', '__proto__', 'toString'])('EDGE_TRUSTED_PROXIES=%s is no word for a network', async (word, t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_TRUSTED_PROXIES: `loopback,${word}` }, t)
    expect(stderr).toMatch(/^edge cannot start:\n {2}EDGE_TRUSTED_PROXIES: expected .*\n$/)
    expect(status).toBe(1)
  })

  test('a debug secret that no header can carry is refused, and not shown', async (t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_DEBUG_SESSION_SECRET: 's3cret\n' }, t)
    expect(status).toBe(1)
    expect(stderr).toContain('EDGE_DEBUG_SESSION_SECRET: expected a secret without white space at its ends')
    expect(stderr).not.toContain('s3cret')
  })

  test('a Redis URL that is refused is not shown: it may hold a password', async (t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_REDIS_URL: 'redis://user:s3c/ret@host' }, t)
    expect(status).toBe(1)
    expect(stderr).toMatch(/EDGE_REDIS_URL: expected .*%2F/)
    expect(stderr).not.toMatch(/s3c|ret@/)
  })

  test('every bad entry of EDGE_TRUSTED_PROXIES is named', async (t) => {
    const { stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_TRUSTED_PROXIES: 'x,loopback,10.0.0.0/99' }, t)
    expect(stderr).toContain('got "x, 10.0.0.0/99"')
  })

  test('as options are named as options, beside those of the environment', async (t) => {
    const { status, stderr } = await finished(['serve', '--port', 'x', '--store-size', 'y'], { EDGE_PORT: '0', EDGE_LOG_LEVEL: 'z' }, t)
    expect(status).toBe(1)
    expect(stderr.match(/^ {2}\S+: /gm)).toEqual(['  --port: ', '  EDGE_LOG_LEVEL: ', '  --store-size: '])
  })

  test('a password in a bad URL is not repeated', async (t) => {
    const { stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_BACKEND_URL: 'ftp://user:hunter2@backend' }, t)
    expect(stderr).toContain('EDGE_BACKEND_URL')
    expect(stderr).not.toContain('hunter2')
  })

  test.for([
    ['EDGE_CONFIG_URL', 'http://user:hunter2@bundles.example/'],
    ['EDGE_CONFIG_URL', 'ftp://bundles.example/?token=hunter2'],
    ['EDGE_CONFIG_TOKEN', 'hunter2 hunter2'],
    ['EDGE_CONFIG_PUBLIC_KEY', 'hunter2'],
  ] as const)('what may be secret in %s is not repeated: %s', async ([variable, value], t) => {
    const { stderr } = await finished(['serve'], { ...LOOPBACK, [variable]: value }, t)
    expect(stderr).toContain(variable)
    expect(stderr).not.toContain('hunter2')
  })

  test('a file and a URL at once are refused', async (t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_CONFIG_FILE: 'b', EDGE_CONFIG_URL: 'http://127.0.0.1/' }, t)
    expect(status).toBe(1)
    expect(stderr).toBe('edge cannot start:\n  EDGE_CONFIG_URL: expected one source of bundles, but EDGE_CONFIG_FILE is set too\n')
  })

  test('a token and a cache without a URL are refused', async (t) => {
    const env = { ...LOOPBACK, EDGE_CONFIG_FILE: 'b', EDGE_CONFIG_TOKEN: 'hunter2', EDGE_CONFIG_CACHE_FILE: 'c' }
    const { status, stderr } = await finished(['serve'], env, t)
    expect(status).toBe(1)
    expect(stderr.match(/^ {2}\S+: expected EDGE_CONFIG_URL beside it/gm)).toEqual([
      '  EDGE_CONFIG_TOKEN: expected EDGE_CONFIG_URL beside it',
      '  EDGE_CONFIG_CACHE_FILE: expected EDGE_CONFIG_URL beside it',
    ])
    expect(stderr).not.toContain('hunter2')
  })

  test('reverse_proxy without a backend names the backend', async (t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_MODE: 'reverse_proxy' }, t)
    expect(status).toBe(1)
    expect(stderr).toMatch(/^ {2}EDGE_BACKEND_URL: expected /m)
  })

  test('one port for two purposes is refused', async (t) => {
    const { status, stderr } = await finished(['serve'], { EDGE_HOST: '127.0.0.1', EDGE_PORT: '18080', EDGE_ADMIN_PORT: '18080' }, t)
    expect(status).toBe(1)
    expect(stderr).toMatch(/^ {2}EDGE_ADMIN_PORT: expected a port other than EDGE_PORT \(18080\)$/m)
  })

  test('a head that may take longer than its request is refused', async (t) => {
    const { status, stderr } = await finished(['serve'], { ...LOOPBACK, EDGE_REQUEST_TIMEOUT_MS: '30000' }, t)
    expect(status).toBe(1)
    expect(stderr).toMatch(/^ {2}EDGE_HEADERS_TIMEOUT_MS: expected no more than EDGE_REQUEST_TIMEOUT_MS \(30000\), got 60000$/m)
  })
})
