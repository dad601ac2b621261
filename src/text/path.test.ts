import { describe, expect, test } from 'vitest'
import { encodePathText, mayClimb, normalizePath } from './path.ts'

describe('a target is compared', () => {
  test.each([
    ['/', '/'],
    ['', '/'],
    ['/api', '/api'],
    ['/api/', '/api/'],
    ['//api', '/api'],
    ['/%61pi', '/api'],
    ['/x/../api', '/api'],
    ['/x/%2e%2E/api', '/api'],
    ['/a//../b', '/b'],
    ['/../../api', '/api'],
    ['/api/.', '/api/'],
    ['/api/x/..', '/api/'],
    ['/api/..', '/'],
    ['/.well-known/x', '/.well-known/x'],
    ['/...', '/...'],
    ['/api?next=/../x', '/api'],
    ['/api#/../x', '/api'],
    ['?x', '/'],
    ['http://example.com/api?x', '/api'],
    ['http://example.com', '/'],
    ['HTTPS://user:pw@[::1]:8443//api', '/api'],
    ['/http://example.com/api', '/http:/example.com/api'],
    ['api', '/api'],
    ['*', '/*'],
    ['/a%2fb', '/a%2Fb'],
    ['/a%00b', '/a%00b'],
    ['/%', '/%25'],
    ['/%4', '/%254'],
    ['/%zz', '/%25zz'],
    ['/%%361', '/%2561'],
    ['/%2561', '/%2561'],
    ['/a b', '/a%20b'],
    ['/a\\..\\b', '/a%5C..%5Cb'],
    ['/caf\xc3\xa9', '/caf%C3%A9'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ["/~a-b_c.d!$&'()*+,;=:@", "/~a-b_c.d!$&'()*+,;=:@"],
  ])('%j as %j', (target, normal) => {
    expect(normalizePath(target)).toBe(normal)
  })
})

describe('a path that leaves the folder it is appended to', () => {
  test.each([
    '/..',
    '/../a',
    '/a/..',
    '/%2e./a',
    '/%2E%2e/a',
    '/%252e%25252e/a',
    '/a%2f..%2fb',
    '/a%252F../b',
    '/a\\..\\b',
    '/a%5c..%5cb',
    '/..;/a',
    '/..;x=1/a',
    '/%c0%ae%c0%ae/a',
    '/%c0%af../a',
    '/%u002e%u002e/a',
    '/..%20/a',
    '/..?x',
    '/#/../a',
    '/%25%32%65%25%32%65/a',
    '/%%32%65%%32%65/a',
    '/x%25%32%66..%25%32%66y',
    '/%e0%80%ae%e0%80%ae/a',
    `/${'%25'.repeat(9)}2525252525252e`,
  ])('may be %s', (target) => {
    expect(mayClimb(target)).toBe(true)
  })

  test.each(['/', '/a', '/.', '/./a', '/.a', '/a..b', '/a..', '/main..next', '/a?x=/../b', '/a%20b', '*'])('is not %s', (target) => {
    expect(mayClimb(target)).toBe(false)
  })
})

test('a path that a person writes turns into the bytes that a client sends', () => {
  expect(encodePathText('/café/€')).toBe('/caf%C3%A9/%E2%82%AC')
  expect(encodePathText('/plain?q=1')).toBe('/plain?q=1')
  expect(encodePathText('/\ud800')).toBe('/%EF%BF%BD')
})
