import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodePathText, normalizePath } from '../../src/text/path.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

const UNRESERVED = [...'ABCXYZabcxyz0189-._~']
const OTHERS = [..."!$&'()*+,;=:@"]

const segment = fc
  .string({ unit: fc.constantFrom(...UNRESERVED, ...OTHERS), minLength: 1, maxLength: 6 })
  .filter((text) => text !== '.' && text !== '..')
const path = fc
  .tuple(fc.array(segment, { maxLength: 5 }), fc.boolean())
  .map(([segments, isDirectory]) => `/${segments.join('/')}${isDirectory && segments.length > 0 ? '/' : ''}`)

/** What a slash may be written as without leading anywhere else. */
const slash = fc
  .array(
    fc.oneof(
      fc.constantFrom('//', '/./', '/%2e/', '/%2E/', '///', '//./'),
      segment.map((name) => `/${name}/../`),
    ),
    { maxLength: 3 },
  )
  .map((detours) => detours.join('') || '/')

/** What a URL may have in a segment: fast-check's `webUrl` makes a table of all code points, for two seconds in each process. */
const webSegment = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...UNRESERVED, ...OTHERS),
    anyText({ minLength: 1, maxLength: 1 }).map((char) => encodeURIComponent(char.toWellFormed())),
  ),
})
const webPath = fc.array(webSegment, { maxLength: 5 }).map((segments) => segments.map((each) => `/${each}`).join(''))
const webUrl = fc
  .tuple(
    fc.constantFrom('http', 'https'),
    fc.domain(),
    webPath,
    fc.option(
      webPath.map((text) => `?${text}`),
      { nil: '' },
    ),
    fc.option(
      webPath.map((text) => `#${text}`),
      { nil: '' },
    ),
  )
  .map(([scheme, host, path, query, fragment]) => `${scheme}://${host}${path}${query}${fragment}`)

/** Every text that a client might send, and those most likely to confuse. */
const target = fc.oneof(anyText(), fc.string({ unit: fc.constantFrom(...'//..%%2eE5cFf?#:\\a \0é\xff', '\ud800', '😀') }), webUrl)

describe('a normalised path', () => {
  test('comes out of any text, starts with a slash, and has no double slash, dot segment, query or raw odd character', () => {
    fc.assert(
      fc.property(target, (text) => {
        const normal = normalizePath(text)
        expect(normal).toMatch(/^\/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-F]{2})*$/)
        expect(normal).not.toContain('//')
        expect(normal.split('/')).not.toContain('.')
        expect(normal.split('/')).not.toContain('..')
      }),
      { numRuns: runs(80) },
    )
  })

  test('is its own normal form', () => {
    fc.assert(
      fc.property(target, (text) => {
        expect(normalizePath(normalizePath(text))).toBe(normalizePath(text))
      }),
      { numRuns: runs(80) },
    )
  })

  test('keeps no escape of a character that needs none', () => {
    fc.assert(
      fc.property(target, (text) => {
        for (const [, hex] of normalizePath(text).matchAll(/%(..)/g)) {
          expect(String.fromCharCode(Number.parseInt(hex!, 16))).not.toMatch(/[A-Za-z0-9\-._~]/)
        }
      }),
    )
  })

  test('is the path itself where that is plain', () => {
    fc.assert(
      fc.property(path, (plain) => {
        expect(normalizePath(plain)).toBe(plain)
      }),
    )
  })

  test('is the same however unreserved characters are escaped', () => {
    fc.assert(
      fc.property(path, fc.infiniteStream(fc.constantFrom('raw', 'upper', 'lower')), (plain, spellings) => {
        const escaped = [...plain].map((char) => (UNRESERVED.includes(char) ? spell(char, spellings.next().value) : char)).join('')
        expect(normalizePath(escaped)).toBe(plain)
      }),
    )
  })

  test('is the same however many `//`, `/./` and `/x/../` stand for its slashes', () => {
    fc.assert(
      fc.property(path, fc.infiniteStream(slash), (plain, slashes) => {
        const detour = plain.replaceAll('/', () => slashes.next().value)
        expect(normalizePath(detour)).toBe(plain)
      }),
    )
  })

  test('is the same whatever query, fragment, scheme and authority come with it', () => {
    const origin = fc.constantFrom('', 'http://example.com', 'https://user@[::1]:8443', 'HTTP://x')
    fc.assert(
      fc.property(path, origin, fc.constantFrom('', '?', '#'), anyText(), (plain, before, mark, after) => {
        expect(normalizePath(`${before}${plain}${mark}${mark && after}`)).toBe(plain)
      }),
    )
  })

  test('never climbs above the root', () => {
    fc.assert(
      fc.property(path, fc.integer({ min: 1, max: 9 }), (plain, count) => {
        expect(normalizePath('/..'.repeat(count) + plain)).toBe(plain)
      }),
    )
  })

  test('is the same for a text in a bundle and for its bytes on the wire', () => {
    const words = fc.array(fc.string({ unit: 'grapheme', minLength: 1 }), { minLength: 1, maxLength: 3 })
    fc.assert(
      fc.property(words, (list) => {
        const text = `/${list.map((word) => word.replace(/[?#]/g, '')).join('/')}`
        const wire = Buffer.from(text.toWellFormed(), 'utf8').toString('latin1')
        expect(normalizePath(encodePathText(text))).toBe(normalizePath(wire))
      }),
    )
  })
})

function spell(char: string, spelling: string): string {
  const hex = char.charCodeAt(0).toString(16).padStart(2, '0')
  if (spelling === 'raw') return char
  return `%${spelling === 'upper' ? hex.toUpperCase() : hex}`
}
