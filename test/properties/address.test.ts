import { isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatAddress, parseAddress, subjectText } from '../../src/text/address.ts'
import { addressOf, anyAddress, textOf } from '../support/random/addresses.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

describe('an address', () => {
  test('is read back from what was written', () => {
    fc.assert(
      fc.property(anyAddress, (address) => {
        expect(formatAddress(addressOf(address))).toBe(textOf(address))
        expect(parseAddress(textOf(address))).toEqual(addressOf(address))
      }),
      { numRuns: runs(20) },
    )
  })

  test('is the same in any spelling: case, leading zeros, `::`, brackets, port, zone, white space', () => {
    const spelling = fc.record({
      upper: fc.boolean(),
      padded: fc.boolean(),
      shortenAt: fc.nat(7),
      zone: fc.constantFrom('', '%eth0', '%25en1'),
      port: fc.constantFrom('', ':80', ':65535'),
      around: fc.constantFrom('', ' ', '\t'),
    })
    fc.assert(
      fc.property(anyAddress, spelling, (address, how) => {
        let text = textOf(address)
        if (address.isV6) {
          if (how.padded) text = text.replace(/[0-9a-f]+/g, (group) => group.padStart(4, '0'))
          text = shorten(text, how.shortenAt)
          if (how.upper) text = text.toUpperCase()
          text = `${text}${how.zone}`
          if (how.port !== '' || how.padded) text = `[${text}]`
        }
        expect(parseAddress(`${how.around}${text}${how.port}${how.around}`)).toEqual(addressOf(address))
      }),
      { numRuns: runs(30) },
    )
  })

  test('inside IPv6 is the IPv4 address that it is', () => {
    const mapped = fc.constantFrom('::ffff:', '::FFFF:', '0:0:0:0:0:ffff:', '0000::ffff:')
    fc.assert(
      fc.property(anyAddress, mapped, fc.constantFrom('', ':443'), (address, prefix, port) => {
        fc.pre(!address.isV6)
        const text = `${prefix}${textOf(address)}`
        expect(parseAddress(port === '' ? text : `[${text}]${port}`)).toEqual(addressOf(address))
      }),
    )
  })

  test('is read exactly where Node reads one', () => {
    const text = fc.oneof(
      fc.string({ unit: fc.constantFrom(...'0123456789abcdefF::::....'), maxLength: 20 }),
      fc
        .tuple(anyAddress.map(textOf), fc.nat(20), fc.constantFrom(...'0:.fg'))
        .map(([good, at, char]) => good.slice(0, at) + char + good.slice(at)),
      fc.tuple(anyAddress.map(textOf), fc.nat(20)).map(([good, at]) => good.slice(0, at) + good.slice(at + 1)),
    )
    fc.assert(
      fc.property(text, (candidate) => {
        fc.pre(!/^[^:]*:\d{1,5}$/.test(candidate)) // that is a port
        expect(parseAddress(candidate) !== undefined).toBe(isIP(candidate) !== 0)
      }),
      { numRuns: runs(40) },
    )
  })

  test('is looked for in any text without a crash', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const address = parseAddress(text)
        if (address !== undefined) expect(isIP(formatAddress(address))).toBeGreaterThan(0)
      }),
    )
  })

  test('shares its subject with exactly those of its /64, or with nobody when it is IPv4', () => {
    fc.assert(
      fc.property(anyAddress, fc.nat(127), (address, bit) => {
        const other = { ...address, number: address.number ^ (1n << BigInt(address.isV6 ? bit : bit % 32)) }
        fc.pre(other.number >> 32n !== 0xffffn)
        const isShared = subjectText(addressOf(address)) === subjectText(addressOf(other))
        expect(isShared).toBe(address.isV6 && bit < 64)
      }),
    )
  })
})

/** Writes the run of zero groups that begins at `at`, if there is one, as `::`. */
function shorten(text: string, at: number): string {
  const groups = text.split(':')
  let end = at
  while (end < groups.length && /^0+$/.test(groups[end]!)) end++
  if (end === at) return text
  return `${groups.slice(0, at).join(':')}::${groups.slice(end).join(':')}`
}
