import { describe, expect, test } from 'vitest'
import { hostEnd, hostStart } from './question-shapes.ts'

describe('an absolute URL', () => {
  test.each([
    ['http://a/b', 'a', '/b'],
    ['HTTPS://a:8443/b?c=http://d/', 'a:8443', '/b?c=http://d/'],
    ['https://a', 'a', ''],
    ['https:///b', '', '/b'],
    ['http://', '', ''],
    ['http://u@[::1]//b', 'u@[::1]', '//b'],
  ])('%s has the host %j and the target %j', (url, host, target) => {
    for (const [before, after] of [
      ['', ''],
      ['http://x/', '/y?z'],
    ] as const) {
      const text = before + url + after
      const end = before.length + url.length
      const at = hostStart(text, before.length, end)
      const pathAt = hostEnd(text, at, end)
      expect([text.slice(at, pathAt), text.slice(pathAt, end)]).toEqual([host, target])
    }
  })

  test.each(['', '/a', '//a/b', 'http:/a', 'http:', 'http', 'ftp://a/', 'xhttp://a/', 'http//:a', 'https:/', ' http://a/'])(
    'is not %j',
    (text) => {
      expect(hostStart(text, 0, text.length)).toBe(-1)
    },
  )

  test.each(['http://a?/b', 'http://a#/b', 'http://?', 'http://a?'])('has no host that can be told in %s', (url) => {
    expect(hostEnd(url, 'http://'.length, url.length)).toBe(-1)
  })
})
