import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs } from '../../test/support/run/property-runs.ts'
import { connectionNames } from '../http1/header-fields.ts'
import { parseHead, type ResponseHead } from './backend/response-head.ts'
import { type ResponseFieldOptions, responseFields } from './client-response.ts'
import { headerLines, linesOf } from './downstream.ts'

const NAMES = [
  'Content-Disposition',
  'content-disposition',
  'Content-Encoding',
  'Content-Type',
  'Date',
  'date',
  'Keep-Alive',
  'RateLimit',
  'ratelimit-policy',
  'Set-Cookie',
  'Trailer',
  'Upgrade',
  'Vary',
  'X-Any',
  'x-edge-reason',
]
const VALUES = ['', 'a', 'b, c', 'timeout=5', '\xe4\xff']
const OURS = ['RateLimit-Limit', '5', 'RateLimit-Remaining', '4', 'RateLimit-Reset', '1', 'RateLimit', '"p";r=4;t=1']

const lines = fc.array(
  fc.tuple(
    fc.constantFrom(...NAMES),
    fc.constantFrom(...VALUES),
    fc.constantFrom(': ', ': ', ': ', ':', ':  ', ':\t'),
    fc.constantFrom('', '', ' ', '\t '),
  ),
  { maxLength: 8 },
)
const heads = fc.record({
  version: fc.constantFrom('1.0', '1.1'),
  lines,
  connection: fc.constantFrom('', 'Connection: close\r\n', 'Connection: X-Any, Date\r\n', 'Connection: Content-Length\r\n'),
  length: fc.constantFrom('', 'Content-Length: 3\r\n', 'content-length: 3\r\nContent-Length: 3\r\n'),
  lengthAt: fc.nat(8),
})
const options: fc.Arbitrary<ResponseFieldOptions> = fc.record({
  ours: fc.constantFrom('', 'X-Edge-Debug-Mode: none\r\n', linesOf(OURS)),
  isInterim: fc.boolean(),
  keepsLength: fc.boolean(),
  keepsTrailers: fc.boolean(),
  isDecoded: fc.boolean(),
})

test('the fields that go on are those that are picked one by one, however the lines are spaced', () => {
  fc.assert(
    fc.property(heads, options, options, (given, before, chosen) => {
      const written = given.lines.map(([name, value, before, behind]) => `${name}${before}${value}${behind}\r\n`)
      written.splice(Math.min(given.lengthAt, written.length), 0, given.length)
      const head = parseHead(`HTTP/${given.version} 200 OK\r\n${given.connection}${written.join('')}`)
      // The same head may have come before, to another client.
      responseFields(head, before)
      const { text, hasDate, hasLength } = responseFields(head, chosen)
      const expected = oneByOne(head, chosen)
      expect(text).toBe(linesOf(expected))
      expect(headerLines(text)).toEqual(expected)
      const names = expected.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
      expect([hasDate, hasLength]).toEqual([names.includes('date'), names.includes('content-length')])
    }),
    { numRuns: runs(100) },
  )
})

/** What it says, in the plainest way. */
function oneByOne({ fields, version, connection }: ResponseHead, options: ResponseFieldOptions): string[] {
  const named = connectionNames(connection)
  const all = fields.flatMap((name, i) => (i % 2 === 0 ? [{ name, lower: name.toLowerCase(), value: fields[i + 1]! }] : []))
  const passing = all.filter(({ lower }) => {
    if (['connection', 'keep-alive', 'upgrade', 'transfer-encoding'].includes(lower) || named?.has(lower)) return false
    if (lower.startsWith('x-edge-') || (lower.startsWith('ratelimit') && options.ours.includes('RateLimit: '))) return false
    if (lower === 'content-length') return options.keepsLength
    if (lower === 'content-encoding') return !options.isDecoded
    return lower !== 'trailer' || options.keepsTrailers
  })
  const [length] = passing.filter(({ lower }) => lower === 'content-length')
  const isLast = all.some(({ lower }) => lower === 'content-disposition')
  const kept = passing.filter((field) => field.lower !== 'content-length' || (field === length && !isLast))
  const ours = options.isInterim ? [] : headerLines(options.ours)
  const last = length !== undefined && isLast ? ['Content-Length', length.value] : []
  return [...kept.flatMap(({ name, value }) => [name, value]), 'Via', `${version} edge`, ...ours, ...last]
}
