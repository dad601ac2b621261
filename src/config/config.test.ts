import { describe, expect, test } from 'vitest'
import { BAD_VALUES, badEnvironments } from '../../test/support/service/bad-values.ts'
import { readConfig } from './config.ts'
import { SETTINGS, unknownVariables, unknownVariableText } from './settings.ts'

describe('bad values', () => {
  test.for(badEnvironments())('are all named: %j', (env) => {
    expect(problems(env).map((problem) => problem.split(': expected ')[0])).toEqual(BAD_VALUES.map(([variable]) => variable))
  })

  test.for([
    ['/run/otel.sock', 'a URL that starts with http:// or https://'],
    ['unix:/run/otel.sock', 'a URL that starts with http:// or https://'],
    ['localhost:4318', 'a URL that starts with http:// or https://'],
    ['http://', 'a URL with a valid host, and a port up to 65535'],
    ['https://collector:99999', 'a URL with a valid host, and a port up to 65535'],
    ['http://[::1', 'a URL with a valid host, and a port up to 65535'],
    ['https://collector:4318/v1/traces', 'a URL without /v1/traces at its end, because edge appends it'],
    ['http://collector/below/v1/traces/', 'a URL without /v1/traces at its end, because edge appends it'],
  ])('a collector at %s: %s', ([url, expected]) => {
    expect(problems({ EDGE_OTLP_URL: url! })).toEqual([`EDGE_OTLP_URL: expected ${expected}`])
  })

  test.for(BAD_VALUES.flatMap(([variable, values]) => values.map((value) => [variable, value] as const)))(
    '%s=%s: one of it alone is enough',
    ([variable, value]) => {
      expect(problems({ [variable]: value })).toEqual([expect.stringMatching(new RegExp(`^${variable}: expected .`))])
    },
  )

  test.for(['constructor', '__proto__', 'toString'])('EDGE_TRUSTED_PROXIES=%s is no word for a network', (word) => {
    expect(problems({ EDGE_TRUSTED_PROXIES: `loopback,${word}` })).toEqual([expect.stringMatching(/^EDGE_TRUSTED_PROXIES: expected /)])
  })

  test('a port that Kubernetes set for a Service of that name is told how to get rid of', () => {
    expect(problems({ EDGE_PORT: 'tcp://10.0.0.1:8080' })).toEqual([
      'EDGE_PORT: expected a port from 0 to 65535, or off, got "tcp://10.0.0.1:8080"; Kubernetes sets it for a Service: set enableServiceLinks: false',
    ])
    expect(problems({ EDGE_ADMIN_PORT: 'udp://[fd00::1]:1' })[0]).toContain('enableServiceLinks')
  })

  test('every bad entry of EDGE_TRUSTED_PROXIES is named', () => {
    expect(problems({ EDGE_TRUSTED_PROXIES: 'x,loopback,10.0.0.0/99' })).toEqual([expect.stringContaining('got "x, 10.0.0.0/99"')])
  })

  test('as options are named as options, beside those of the environment', () => {
    const named = problems({ EDGE_PORT: '0', EDGE_LOG_LEVEL: 'z' }, { port: 'x', 'store-size': 'y' })
    expect(named.map((problem) => problem.split(':')[0])).toEqual(['--port', '--store-size', 'EDGE_LOG_LEVEL'])
  })
})

describe('what may be secret in a bad value is not repeated', () => {
  test('a debug secret that no header can carry', () => {
    const [problem, ...others] = problems({ EDGE_DEBUG_SESSION_SECRET: 's3cret\n' })
    expect(others).toEqual([])
    expect(problem).toContain('EDGE_DEBUG_SESSION_SECRET: expected a secret without leading or trailing white space')
    expect(problem).not.toContain('s3cret')
  })

  test('a secret of a backend that no header can carry', () => {
    const [problem, ...others] = problems({ EDGE_SECRET_OPENAI_A: 's3cret\r\nx-admin: 1' })
    expect(others).toEqual([])
    expect(problem).toContain('EDGE_SECRET_OPENAI_A: expected a secret that fits into a header field, but it contains a line break')
    expect(problem).not.toContain('s3cret')
  })

  test('a Redis URL: it may hold a password', () => {
    const [problem, ...others] = problems({ EDGE_REDIS_URL: 'redis://user:s3c/ret@host' })
    expect(others).toEqual([])
    expect(problem).toMatch(/^EDGE_REDIS_URL: expected .*%2F/)
    expect(problem).not.toMatch(/s3c|ret@/)
  })

  test.for([
    ['EDGE_BACKEND_URL', 'ftp://user:hunter2@backend'],
    ['EDGE_CONFIG_URL', 'http://user:hunter2@bundles.example/'],
    ['EDGE_CONFIG_URL', 'ftp://bundles.example/?token=hunter2'],
    ['EDGE_CONFIG_TOKEN', 'hunter2 hunter2'],
    ['EDGE_CONFIG_PUBLIC_KEY', 'hunter2'],
  ] as const)('%s=%s', ([variable, value]) => {
    const named = problems({ [variable]: value })
    expect(named[0]).toContain(variable)
    expect(named.join('\n')).not.toContain('hunter2')
  })
})

describe('values that contradict one another', () => {
  test('a file and a URL at once', () => {
    expect(problems({ EDGE_CONFIG_FILE: 'b', EDGE_CONFIG_URL: 'http://127.0.0.1/' })).toEqual([
      'EDGE_CONFIG_URL: expected one source of bundles, but EDGE_CONFIG_FILE is set too',
    ])
  })

  test('a value that is missing because it is bad is named once', () => {
    expect(problems({ EDGE_EVENTS_URL: 'http://127.0.0.1/', EDGE_EVENTS_SECRET: 'abc' })).toEqual([
      expect.stringMatching(/^EDGE_EVENTS_SECRET: expected whsec_ /),
    ])
    expect(problems({ EDGE_ADMIN_PORT: 'x', EDGE_ADMIN_TOKEN: 'x'.repeat(32) })).toEqual([expect.stringMatching(/^EDGE_ADMIN_PORT: .*"x"/)])
  })

  test('a token and a cache without a URL', () => {
    const named = problems({ EDGE_CONFIG_FILE: 'b', EDGE_CONFIG_TOKEN: 'hunter2', EDGE_CONFIG_CACHE_FILE: 'c' })
    expect(named).toEqual([
      expect.stringMatching(/^EDGE_CONFIG_TOKEN: expected EDGE_CONFIG_URL to be set too/),
      expect.stringMatching(/^EDGE_CONFIG_CACHE_FILE: expected EDGE_CONFIG_URL to be set too/),
    ])
    expect(named.join('\n')).not.toContain('hunter2')
  })

  test('reverse_proxy without a backend', () => {
    expect(problems({ EDGE_MODE: 'reverse_proxy' })).toEqual([expect.stringMatching(/^EDGE_BACKEND_URL: expected /)])
  })

  test('one port for two purposes', () => {
    expect(problems({ EDGE_PORT: '18080', EDGE_ADMIN_PORT: '18080' })).toEqual([
      'EDGE_ADMIN_PORT: expected a port other than EDGE_PORT (18080)',
    ])
  })

  test('a token for reading needs the other one, and is not the same', () => {
    const token = 'x'.repeat(32)
    expect(problems({ EDGE_ADMIN_READ_TOKEN: token })).toEqual([expect.stringMatching(/^EDGE_ADMIN_READ_TOKEN: expected EDGE_ADMIN_TOKEN/)])
    const both = { EDGE_ADMIN_PORT: '9090', EDGE_ADMIN_TOKEN: token }
    expect(problems({ ...both, EDGE_ADMIN_READ_TOKEN: token })).toEqual([
      expect.stringMatching(/^EDGE_ADMIN_READ_TOKEN: expected another token/),
    ])
    expect(problems({ ...both, EDGE_ADMIN_READ_TOKEN: 'short' })).toEqual([
      expect.stringMatching(/^EDGE_ADMIN_READ_TOKEN: expected a token of at least 32/),
    ])
  })

  test('an address for an admin port that is not open, in each mode and on a unix socket alone', () => {
    for (const env of [{}, { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://b' }, { EDGE_PORT: 'off', EDGE_SOCKET: 's' }]) {
      expect(problems({ ...env, EDGE_ADMIN_HOST: '127.0.0.1' })).toEqual([
        'EDGE_ADMIN_HOST: expected EDGE_ADMIN_PORT to be set too, because it is the address of that port only',
      ])
    }
    // A bad value has a problem of its own.
    expect(problems({ EDGE_ADMIN_HOST: '::1', EDGE_ADMIN_PORT: 'x' })).toEqual([expect.stringMatching(/^EDGE_ADMIN_PORT: .*"x"/)])
  })

  test('one unix socket for two purposes, however it is spelled', () => {
    expect(problems({ EDGE_SOCKET: '/run/edge.sock', EDGE_GRPC_SOCKET: '/run/./edge.sock' })).toEqual([
      'EDGE_GRPC_SOCKET: expected a path other than EDGE_SOCKET (/run/edge.sock)',
    ])
  })

  test.for([{}, { EDGE_ADMIN_PORT: '8081' }])('no port, and nothing else that requests could come to: %j', (env) => {
    expect(problems({ EDGE_PORT: 'off', ...env })).toEqual([
      'EDGE_PORT: expected a port, because there is nothing else to listen on: set EDGE_SOCKET, EDGE_GRPC_PORT or EDGE_GRPC_SOCKET',
    ])
  })

  test('gRPC in reverse_proxy', () => {
    const env = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1', EDGE_GRPC_PORT: '8082', EDGE_GRPC_SOCKET: 'g.sock' }
    expect(problems(env).map((problem) => problem.split(',')[0])).toEqual([
      'EDGE_GRPC_PORT: expected to be unset',
      'EDGE_GRPC_SOCKET: expected to be unset',
    ])
  })

  test('less memory for all bodies than one may have', () => {
    expect(problems({ EDGE_BODY_MEMORY: '8m' })).toEqual([
      'EDGE_BODY_MEMORY: expected at least EDGE_MAX_BODY_BYTES (16777216 bytes), got 8388608',
    ])
  })

  test('a head that may take longer than its request', () => {
    expect(problems({ EDGE_REQUEST_TIMEOUT_MS: '30000' })).toEqual([
      'EDGE_HEADERS_TIMEOUT_MS: expected no more than EDGE_REQUEST_TIMEOUT_MS (30000), got 60000',
    ])
  })
})

describe('good values', () => {
  test('an option wins over the environment, even over a bad one', () => {
    expect(readConfig({ EDGE_PORT: 'nonsense' }, { port: '0' })).toMatchObject({ ok: true, config: { port: 0 } })
  })

  test('a unix socket or gRPC may take the place of the port', () => {
    for (const name of ['EDGE_SOCKET', 'EDGE_GRPC_SOCKET', 'EDGE_GRPC_PORT']) {
      expect(readConfig({ EDGE_PORT: 'off', [name]: '1' }, {})).toMatchObject({ ok: true, config: { port: undefined } })
    }
  })

  test('permissions are octal, and a path may fill an address', () => {
    const path = 'x'.repeat(107)
    expect(readConfig({ EDGE_SOCKET: path, EDGE_SOCKET_MODE: '600' }, {})).toMatchObject({
      config: { socket: path, socketMode: 0o600 },
    })
    expect(readConfig({}, {})).toMatchObject({ config: { socketMode: 0o660 } })
  })

  test('an empty variable counts as unset', () => {
    const empty = Object.fromEntries(Object.values(SETTINGS).map(({ env }) => [env, '']))
    expect(readConfig(empty, {})).toEqual(readConfig({}, {}))
    expect(readConfig({}, {}).ok).toBe(true)
  })
})

describe('a variable that is not a setting', () => {
  test.each([
    ['EDGE_REDIS_URI', 'EDGE_REDIS_URL'],
    ['EDGE_PROT', 'EDGE_PORT'],
    ['EDGE_ADMIN_TOKN', 'EDGE_ADMIN_TOKEN'],
    ['EDGE_KEEP_ALIVE_MS', 'EDGE_KEEPALIVE_MS'],
    ['EDGE_BACKEND', 'EDGE_BACKEND_URL'],
    ['EDGE_ADMIN_ULR', 'EDGE_ADMIN_URL'],
    ['edge_redis_url', 'EDGE_REDIS_URL'],
    ['Edge_Port', 'EDGE_PORT'],
    ['EDGE_SECRET_DIR', 'EDGE_SECRETS_DIR'],
  ])('%s may have been meant as %s', (name, suggestion) => {
    expect(unknownVariables({ [name]: 'hunter2' })).toEqual([{ name, suggestion }])
  })

  // The prefix that all of them share does not make two names alike, and a suggestion never turns a meaning round.
  test.each(['EDGE_P', 'EDGE_NO_TOP', 'EDGE_UNTRUSTED_PROXIES', 'EDGE_MIN_BODY_BYTES', 'EDGE_CONFIG_PRIVATE_KEY', 'EDGE_REGION', 'EDGE_'])(
    '%s looks like none',
    (name) => {
      expect(unknownVariables({ [name]: '1' })).toEqual([{ name, suggestion: undefined }])
    },
  )

  test.each([
    'EDGE_ACTOR',
    'EDGE_ADMIN_URL',
    'EDGE_PROXY_WIRE',
    'EDGE_TEST_SEED',
    'EDGE_SERVICE_HOST',
    'EDGE_SERVICE_PORT',
    'EDGE_REDIS_SERVICE_PORT_TCP_REDIS',
    'EDGE_REDIS_PORT_6379_TCP_ADDR',
    'EDGE_PORT_8080_UDP',
    'EDGE_SECRET_OPENAI_A',
    'EDGEPORT',
    'MY_EDGE_PORT',
  ])('%s is none to warn of', (name) => {
    expect(unknownVariables({ [name]: '1' })).toEqual([])
  })

  test('is told from the address of a Service in Kubernetes by its value', () => {
    expect(unknownVariables({ EDGE_REDIS_PORT: 'tcp://10.0.0.1:6379' })).toEqual([])
    expect(unknownVariables({ EDGE_REDIS_PORT: '6379' })).toHaveLength(1)
  })

  test('counts as unset if it is empty, and settings are known', () => {
    expect(unknownVariables({ EDGE_PROT: '' })).toEqual([])
    expect(unknownVariables(Object.fromEntries(Object.values(SETTINGS).map(({ env }) => [env, '1'])))).toEqual([])
  })

  test('is shown on one short line, without its value, and stops nothing', () => {
    const strange = { 'EDGE_A\n{"level":60}': 'hunter2', [`EDGE_${'x'.repeat(100_000)}`]: 'hunter2' }
    const texts = unknownVariables(strange).map(unknownVariableText)
    expect(texts[0]).toBe('"EDGE_A\\n{\\"level\\":60}" is not a setting and has no effect: edge serve --help lists all settings')
    for (const text of texts) expect(text).toMatch(/^[^\n]{1,140}$/)
    expect(texts.join()).not.toContain('hunter2')
    expect(readConfig(strange, {}).ok).toBe(true)
  })
})

function problems(env: Readonly<Record<string, string>>, flags: Readonly<Record<string, string>> = {}): readonly string[] {
  const result = readConfig(env, flags)
  if (result.ok) throw new Error('all is well')
  return result.problems
}
