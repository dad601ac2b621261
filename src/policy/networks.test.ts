import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCidr } from '../request/cidr-map.ts'
import { formatAddress, parseAddress, subjectText } from '../text/address.ts'
import { NetworkIndex, networkProblem, parseNetwork, subjectAddress } from './networks.ts'
import { compileMatch } from './rule-match.ts'

const patternsOf = (...given: string[]) => compileMatch({ 'ip:address': given })[0]!.patterns

describe('networks in a match', () => {
  test.each([
    ['10.0.0.0/8', ['10.0.0.0', '10.255.255.255'], ['11.0.0.0', '9.255.255.255', '100.0.0.1', 'a:0:0:0::/64']],
    ['192.0.2.128/25', ['192.0.2.128', '192.0.2.255'], ['192.0.2.127', '192.0.3.128']],
    ['192.0.2.7/32', ['192.0.2.7'], ['192.0.2.6', '192.0.2.70']],
    ['0.0.0.0/0', ['0.0.0.0', '255.255.255.255'], ['0:0:0:0::/64']],
    ['::ffff:10.0.0.0/104', ['10.1.2.3'], ['11.1.2.3']],
    ['2001:db8::/32', ['2001:db8:0:0::/64', '2001:db8:ffff:ffff::/64'], ['2001:db9:0:0::/64', '2001:db7:ffff:ffff::/64', '32.1.13.184']],
    ['2001:db8:0:8000::/49', ['2001:db8:0:8000::/64', '2001:db8:0:ffff::/64'], ['2001:db8:0:7fff::/64']],
    ['2001:DB8::5/64', ['2001:db8:0:0::/64'], ['2001:db8:0:1::/64']],
    ['::/0', ['0:0:0:0::/64', 'ffff:ffff:ffff:ffff::/64'], ['10.0.0.1']],
  ])('%s', (network, inside, outside) => {
    const patterns = patternsOf(network)
    expect(inside.filter((value) => !patterns.cover(value))).toEqual([])
    expect(outside.filter((value) => patterns.cover(value))).toEqual([])
  })

  test('are beside addresses and prefixes in one list', () => {
    const patterns = patternsOf('10.0.0.0/8', '192.0.2.1', '198.51.*')
    expect(['10.9.9.9', '192.0.2.1', '198.51.100.1', '192.0.2.2'].map((value) => patterns.cover(value))).toEqual([true, true, true, false])
  })

  test('cover all that narrower ones and addresses in them cover', () => {
    const wide = patternsOf('10.0.0.0/8', '2001:db8::/32')
    expect(wide.coverAll(patternsOf('10.0.0.0/8', '10.64.0.0/10', '10.1.2.3', '2001:db8:7::/48', '2001:db8:1:2::/64'))).toBe(true)
    for (const other of ['0.0.0.0/0', '8.0.0.0/7', '11.0.0.0/8', '10.*', '2001:d00::/24'])
      expect(wide.coverAll(patternsOf(other))).toBe(false)
  })

  const word = fc.integer({ min: 0, max: 0xffff_ffff }).map((value) => value | 0)
  const address = fc
    .record({ isV6: fc.boolean(), high: word, low: word })
    .map(({ isV6, high, low }) => ({ isV6, words: [high, isV6 ? low : 0, 0, 0] as const }))
  const network = fc.tuple(address, fc.nat(64)).map(([one, bits]) => ({ address: one, prefixBits: one.isV6 ? bits : bits % 33 }))

  test('are found for the same addresses as when each bit is compared', () => {
    fc.assert(
      fc.property(fc.array(network, { maxLength: 20 }), fc.array(address, { minLength: 1, maxLength: 10 }), (networks, addresses) => {
        const index = new NetworkIndex<number>()
        for (const [i, one] of networks.entries()) index.set(one, index.get(one) ?? i)
        // Addresses that differ from a network in a few bits are the interesting ones.
        for (const one of [...addresses, ...networks.map((each) => each.address)]) {
          const found: number[] = []
          index.some(one, (value) => {
            found.push(value)
            return false
          })
          const bitsOf = (given: typeof one): string => given.words.map((each) => (each >>> 0).toString(2).padStart(32, '0')).join('')
          const isIn = ({ address: of, prefixBits }: (typeof networks)[number]): boolean =>
            of.isV6 === one.isV6 && bitsOf(of).slice(0, prefixBits) === bitsOf(one).slice(0, prefixBits)
          const first = networks.flatMap((each) => (isIn(each) ? [networks.findIndex((other) => isSame(each, other))] : []))
          expect(found.toSorted()).toEqual([...new Set(first)].toSorted())
        }
        function isSame(a: (typeof networks)[number], b: (typeof networks)[number]): boolean {
          const bitsOf = ({ address: of, prefixBits }: typeof a): string =>
            `${of.isV6}${prefixBits}${of.words
              .map((each) => (each >>> 0).toString(2).padStart(32, '0'))
              .join('')
              .slice(0, prefixBits)}`
          return bitsOf(a) === bitsOf(b)
        }
      }),
    )
  })

  test('that begin elsewhere are told where they begin, and that is accepted', () => {
    fc.assert(
      fc.property(network, (one) => {
        const problem = networkProblem(one)
        if (problem === undefined) return
        const text = problem.slice(problem.lastIndexOf(' ') + 1)
        const told = parseNetwork(text)
        expect(told === undefined ? subjectText(parseCidr(text)!.address) : networkProblem(told)).toBe(
          told === undefined ? subjectText(one.address) : undefined,
        )
      }),
    )
  })

  test('values are read back as the addresses that they stand for', () => {
    fc.assert(
      fc.property(address, (one) => {
        const read = subjectAddress(subjectText(one))!
        expect(formatAddress(read)).toBe(formatAddress(parseAddress(formatAddress(one))!))
      }),
    )
  })
})
