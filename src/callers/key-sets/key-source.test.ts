import { expect, test } from 'vitest'
import { AllowedHosts } from '../../outbound/allowed-hosts.ts'
import { type KeySetEntry, keySourceOf, keySourceProblems } from './key-source.ts'

const SETTINGS = { backendHosts: new AllowedHosts(['login.example.com']), secretsDir: '/secrets' }

test('URLs of allowed hosts and names of files may be read', () => {
  const entries = [
    { name: 'a', jwks_url: 'https://login.example.com/keys' },
    { name: 'b', jwks_file: 'okta.json' },
    { name: 'c', jwks_file: '_K-8' },
  ]
  expect(keySourceProblems(entries, SETTINGS)).toEqual([])
})

test('another host is refused, and the message names the setting', () => {
  const entries = [
    { name: 'a', jwks_file: 'a' },
    { name: 'b', jwks_url: 'https://evil.example/keys' },
  ]
  const message = 'expected a host that EDGE_BACKEND_HOSTS allows; add evil.example to it'
  expect(keySourceProblems(entries, SETTINGS)).toEqual([{ path: 'callers.jwt[1].jwks_url', message }])
})

test.each(['..', '.', '../keys', 'a/b', '/etc/passwd', 'a\\b', '..data', '.hidden', '', 'a\0b', 'a b', 'ä', 'x'.repeat(129)])(
  '%j is not the name of a file in the directory',
  (file) => {
    const [problem] = keySourceProblems([{ name: 'a', jwks_file: file }], SETTINGS)
    expect(problem).toMatchObject({
      path: 'callers.jwt[0].jwks_file',
      message: expect.stringContaining('the name of a file in EDGE_SECRETS_DIR'),
    })
  },
)

test('a file needs its directory', () => {
  expect(keySourceProblems([{ name: 'a', jwks_file: 'a' }], { ...SETTINGS, secretsDir: undefined })).toEqual([
    { path: 'callers.jwt[0].jwks_file', message: 'expected EDGE_SECRETS_DIR to be set, because the file is read there' },
  ])
})

test.each<KeySetEntry>([{ name: 'a' }, { name: 'a', jwks_url: 'https://login.example.com/', jwks_file: 'a' }])(
  '%j has no place, or two',
  (entry) => {
    expect(keySourceProblems([entry], SETTINGS)).toEqual([
      { path: 'callers.jwt[0].jwks_url', message: 'expected either jwks_url or jwks_file' },
    ])
  },
)

test('one place has one name, however it is written, and a file is never taken for a URL', () => {
  const sources = ['https://a.test/k', 'HTTPS://A.test:443/k', 'https://a.test/k?p=1'].map((jwks_url) =>
    keySourceOf({ name: 'a', jwks_url }),
  )
  expect(sources).toEqual(['https://a.test/k', 'https://a.test/k', 'https://a.test/k?p=1'])
  expect(keySourceOf({ name: 'a', jwks_file: 'k' })).toBe('file:k')
})
