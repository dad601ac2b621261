import { expect, test } from 'vitest'
import { readConfig } from './config.ts'

const PAIR = { EDGE_TLS_CERT_FILE: 'a.pem', EDGE_TLS_KEY_FILE: 'a.key' }

test('pairs are read in their order, and listeners by their names', () => {
  const result = readConfig({ EDGE_TLS_CERT_FILE: 'a.pem, b.pem', EDGE_TLS_KEY_FILE: 'a.key,b.key', EDGE_TLS_LISTENERS: 'grpc, main' }, {})
  expect(result.ok && result.config).toMatchObject({
    tlsCertFiles: ['a.pem', 'b.pem'],
    tlsKeyFiles: ['a.key', 'b.key'],
    tlsListeners: ['main', 'grpc'],
    tlsClientAuth: 'off',
  })
})

test('without a certificate there is no TLS, whatever its listeners', () => {
  const result = readConfig({ EDGE_TLS_LISTENERS: 'admin' }, {})
  expect(result.ok && result.config).toMatchObject({ tlsCertFiles: [], tlsKeyFiles: [] })
})

test.each<[what: string, env: Record<string, string>, problem: RegExp]>([
  [
    'a certificate without a key',
    { EDGE_TLS_CERT_FILE: 'a.pem' },
    /^EDGE_TLS_KEY_FILE: expected a key for each certificate of EDGE_TLS_CERT_FILE \(1\).* got 0$/,
  ],
  ['more keys than certificates', { ...PAIR, EDGE_TLS_KEY_FILE: 'a.key,b.key' }, /^EDGE_TLS_KEY_FILE: expected a key for each/],
  [
    'more files than an instance serves',
    { EDGE_TLS_CERT_FILE: 'a,'.repeat(101).slice(0, -1), EDGE_TLS_KEY_FILE: 'a' },
    /^EDGE_TLS_CERT_FILE: expected at most 100 files, got 101$/,
  ],
  ['authorities that nobody is asked for', { ...PAIR, EDGE_TLS_CLIENT_CA_FILE: 'ca.pem' }, /^EDGE_TLS_CLIENT_AUTH: expected require/],
  ['a required certificate of no authority', { ...PAIR, EDGE_TLS_CLIENT_AUTH: 'require' }, /^EDGE_TLS_CLIENT_CA_FILE: expected a file/],
  [
    'authorities without TLS',
    { EDGE_TLS_CLIENT_CA_FILE: 'ca.pem', EDGE_TLS_CLIENT_AUTH: 'require' },
    /^EDGE_TLS_CLIENT_CA_FILE: expected EDGE_TLS_CERT_FILE to be set too/,
  ],
  [
    'the admin port where there is none',
    { ...PAIR, EDGE_TLS_LISTENERS: 'main,admin' },
    /^EDGE_TLS_LISTENERS: expected EDGE_ADMIN_PORT to be set too/,
  ],
  [
    'no port that could speak TLS',
    { ...PAIR, EDGE_PORT: 'off', EDGE_SOCKET: '/run/a.sock' },
    /^EDGE_TLS_CERT_FILE: expected a port that EDGE_TLS_LISTENERS \(main,grpc\) names/,
  ],
])('%s is one problem', (_what, env, problem) => {
  const result = readConfig(env, {})
  expect(result.ok ? [] : result.problems).toEqual([expect.stringMatching(problem)])
})
