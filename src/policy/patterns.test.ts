import { describe, expect, test } from 'vitest'
import { isHostPattern, normalizeHost } from './patterns.ts'

describe('a host is compared', () => {
  test.each([
    ['example.com', 'example.com'],
    ['Example.COM', 'example.com'],
    ['example.com:8080', 'example.com'],
    ['example.com.', 'example.com'],
    ['EXAMPLE.com.:443', 'example.com'],
    [' example.com ', 'example.com'],
    ['[::1]', '::1'],
    ['[2001:DB8::1]:8443', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['127.0.0.1:80', '127.0.0.1'],
    ['xn--mnchen-3ya.de', 'xn--mnchen-3ya.de'],
    ['my_service', 'my_service'],
  ])('%j as %j', (host, normal) => {
    expect(normalizeHost(host)).toBe(normal)
    expect(normalizeHost(normal)).toBe(normal)
  })

  test.each([
    '',
    ' ',
    ':80',
    '.',
    '[',
    '[::1',
    '[]',
    'a.com..',
    '.a.com',
    'a..com',
    'a.com:80:80',
    'a:80:80',
    'a.com,b',
    'a.com/x',
    'ä.com',
    'a.'.repeat(30_000),
  ])('%j as no host at all', (host) => {
    expect(normalizeHost(host)).toBe('')
  })
})

describe('a bundle may name', () => {
  test.each([
    'example.com',
    'Example.COM',
    'example.com:8080',
    'example.com.',
    'localhost',
    '*.example.com',
    '*.Example.com:443',
    '*.com',
    '[::1]',
    '[2001:DB8::1]:8443',
    '10.0.0.1',
    'my_service.internal',
    `${'a'.repeat(63)}.example.com`,
  ])('the host %j', (text) => {
    expect(isHostPattern(text)).toBe(true)
  })
})

describe('a bundle may not name', () => {
  test.each([
    '',
    '*',
    '*.',
    '.',
    '.example.com',
    'a..b',
    'a.*.com',
    '*example.com',
    '**.example.com',
    'example.com/path',
    'https://example.com',
    'https://example.com:8443',
    'https://example.com/path',
    'example.com:8080/path',
    'example.com:port',
    'user@example.com',
    'exa mple.com',
    'münchen.de',
    '[::1',
    '[]',
    '[example.com]',
    '[::1]/path',
    '*.[::1]',
    `${'a'.repeat(64)}.example.com`,
    'a.'.repeat(130),
  ])('the host %j', (text) => {
    expect(isHostPattern(text)).toBe(false)
  })
})
