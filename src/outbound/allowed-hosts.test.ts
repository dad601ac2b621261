import { expect, test } from 'vitest'
import { isLoopbackName, isMetadataAddress, parseAddress } from '../text/address.ts'
import { AllowedHosts, mayFetch, readAllowedHosts } from './allowed-hosts.ts'

const HOSTS = hosts('login.example.com, *.okta.com, idp.test:8443, *.corp.test:9443, localhost:9000, 127.0.0.1:9000, [::1]:9000, 10.0.0.7')

test.each([
  'https://login.example.com/keys',
  'https://login.example.com:443/keys',
  'https://LOGIN.Example.COM./keys',
  'https://login.example.com/keys?p=policy',
  'https://ｌogin.example.com/keys',
  'https://login.ex%61mple.com/keys',
  'https://acme.okta.com/oauth2/v1/keys',
  'https://a.b.okta.com/keys',
  'https://idp.test:8443/keys',
  'https://a.corp.test:9443/keys',
  'https://10.0.0.7/keys',
  'https://167772167/keys',
  'http://localhost:9000/keys',
  'http://127.0.0.1:9000/keys',
  'http://127.1:9000/keys',
  'http://[0:0::1]:9000/keys',
])('%s may be fetched', (url) => {
  expect(mayFetch(url, HOSTS)).toBeUndefined()
})

test.each([
  'https://example.com/keys',
  'https://evil.login.example.com/keys',
  'https://login.example.com.evil.test/keys',
  'https://login.example.com:8443/keys',
  'https://okta.com/keys',
  'https://evilokta.com/keys',
  'https://okta.com.evil.test/keys',
  'https://idp.test/keys',
  'https://idp.test:443/keys',
  'https://a.corp.test/keys',
  'https://10.0.0.8/keys',
  'https://localhost/keys',
  'http://localhost/keys',
])('%s is not among the hosts', (url) => {
  expect(mayFetch(url, HOSTS)).toMatch(/^a host that EDGE_BACKEND_HOSTS allows; add /)
})

test.each([
  'https://login.example.com\\@evil.test/keys',
  ' https://login.example.com/',
  'https://login.exam\tple.com/',
  'https://a.okta.com/\n',
])('%j could be read in two ways', (url) =>
  expect(mayFetch(url, HOSTS)).toBe('a URL without white space, backslashes or control characters'),
)

test.each(['https://login.example.com..evil.test/', 'https://a..okta.com/keys', 'https://.okta.com/keys'])(
  '%s has no host that could be allowed',
  (url) => expect(mayFetch(url, HOSTS)).toBe('a URL with a host name that has no empty part'),
)

test('the way out names the host as the setting takes it', () => {
  expect(mayFetch('https://keys.test:8443/x?secret', HOSTS)).toBe('a host that EDGE_BACKEND_HOSTS allows; add keys.test:8443 to it')
  expect(mayFetch('https://[2001:db8::1]/x', HOSTS)).toBe('a host that EDGE_BACKEND_HOSTS allows; add [2001:db8::1] to it')
})

test.each([
  'ftp://login.example.com/keys',
  'file:///etc/passwd',
  'data:,{}',
  'login.example.com/keys',
  '',
  '//login.example.com',
  'https://',
  'https://[fe80::1%25eth0]/',
])('%j is no URL of a document', (url) => expect(mayFetch(url, HOSTS)).toBe('a URL that starts with https://'))

test.each([
  'https://u@login.example.com/',
  'https://u:p@login.example.com/',
  'https://login.example.com/#k',
  'https://login.example.com/#',
])('%s has a part that is never sent', (url) => expect(mayFetch(url, HOSTS)).toBe('a URL without user, password or fragment'))

test.each(['http://login.example.com/keys', 'http://10.0.0.7/keys', 'http://0.0.0.0:9000/', 'http://localhost.evil.test:9000/'])(
  '%s would be fetched in plain text',
  (url) => expect(mayFetch(url, HOSTS)).toBe('https://, because http:// is allowed to loopback addresses alone'),
)

test.each([
  'https://169.254.169.254/latest',
  'http://169.254.169.254/latest',
  'https://2852039166/',
  'https://0xa9fea9fe/',
  'https://0251.0376.0251.0376/',
  'https://169.254.43518/',
  'https://169.254.169.254./',
  'https://[fe80::1]/',
  'https://[febf::1]/',
  'https://[::ffff:169.254.169.254]/',
  'https://[::ffff:a9fe:a9fe]/',
  'https://[::169.254.169.254]/',
  'https://[64:ff9b::a9fe:a9fe]/',
  'https://[2002:a9fe:a9fe::1]/',
  'https://168.63.129.16/',
  'https://2822734096/',
  'https://100.100.100.200/',
  'https://192.0.0.192/',
  'https://[::ffff:168.63.129.16]/',
  'https://[::168.63.129.16]/',
  'https://[::ffff:0:100.100.100.200]/',
  'https://[64:ff9b::6464:64c8]/',
  'https://[64:ff9b:1::a83f:8110]/',
  'https://[2002:a83f:8110::]/',
  'https://[fd00:ec2::254]/',
  'https://[fd00:ec2::23]/',
  'https://[fd20:ce::254]/',
  'https://[fd00:c1::a9fe:a9fe]/',
  'https://[fd00:a9fe:a9fe::1]/',
  'https://[fd00:42::42]/',
  'https://[fd00:100::100:200]/',
])('%s is link-local or serves metadata, whatever the hosts are', (url) => {
  const { hostname } = new URL(url)
  expect(mayFetch(url, new AllowedHosts([hostname]))).toBe('a host other than a link-local address, or one of a metadata service')
})

test.each([
  '169.253.255.255',
  '169.255.0.0',
  'fec0::1',
  'fe7f::1',
  '2002:a9ff::1',
  '64:ff9b::a9ff:1',
  '::1',
  '127.0.0.1',
  '168.63.129.17',
  '100.100.100.100',
  'fd00:ec3::254',
  'fd20:ce::255',
  'fd12:3456::1',
  '2001:db8::a83f:8110',
])('%s is any address', (text) => expect(isMetadataAddress(parseAddress(text)!)).toBe(false))

test('loopback is an address of the machine itself, or the name localhost', () => {
  expect(['127.0.0.1', '127.255.255.255', '::1', 'localhost', '::ffff:127.0.0.1'].map(isLoopbackName)).toEqual(Array(5).fill(true))
  expect(['128.0.0.1', '::2', '0.0.0.0', '::', 'localhost.example.com', 'my.localhost'].map(isLoopbackName)).toEqual(Array(6).fill(false))
})

test('a pattern with * covers names below it and no addresses', () => {
  expect(mayFetch('https://127.0.0.1/', hosts('*.0.0.1'))).toContain('EDGE_BACKEND_HOSTS')
})

test('an origin covers its own port alone', () => {
  const backend = AllowedHosts.ofOrigin(new URL('https://api.openai.com/v1'))
  expect(mayFetch('https://api.openai.com/keys', backend)).toBeUndefined()
  expect(mayFetch('https://api.openai.com:444/keys', backend)).toBeDefined()
  const local = AllowedHosts.ofOrigin(new URL('http://[::1]:8080'))
  expect(mayFetch('http://[::1]:8080/keys', local)).toBeUndefined()
  expect(mayFetch('https://[::1]/keys', local)).toBeDefined()
})

test.each([
  'https://a.test',
  'a.test/keys',
  '*',
  '*.',
  'a b',
  'a.test:',
  'a.test:0',
  'a.test:99999',
  'a:1:2',
  'bücher.test',
  '**.a.test',
  '1.2.3.4.5',
  '[::1',
  '[1]',
])('%j is no pattern', (pattern) => expect(readAllowedHosts(`a.test,${pattern}`)).toEqual({ badPattern: pattern }))

test('empty entries count for nothing', () => {
  expect(mayFetch('https://a.test/', hosts(' , a.test,,'))).toBeUndefined()
  expect(mayFetch('https://a.test/', hosts(''))).toBeDefined()
})

function hosts(text: string): AllowedHosts {
  const read = readAllowedHosts(text)
  if (!(read instanceof AllowedHosts)) throw new Error(read.badPattern)
  return read
}
