import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CidrMap } from '../../src/request/cidr-map.ts'
import { addressOf, anyAddress, bitsOf, type NumericAddress, textOf } from '../support/random/addresses.ts'
import { runs } from '../support/run/property-runs.ts'

interface Network {
  readonly address: NumericAddress
  readonly bits: number
  readonly value: string
}

const network = fc
  .tuple(anyAddress, fc.nat(128), fc.constantFrom('hosting', 'isp', 'mobile', 'edu'))
  .map(([address, bits, value]): Network => ({ address, bits: bits % (bitsOf(address) + 1), value }))

/** Networks inside one another, as the same address cut at different lengths. */
const networks = fc
  .tuple(fc.array(network, { maxLength: 12 }), fc.array(fc.tuple(fc.nat(11), fc.nat(128), fc.constantFrom('inner', 'outer'))))
  .map(([list, cuts]) => [
    ...list,
    ...cuts.flatMap(([at, bits, value]) => (list[at] ? [{ ...list[at], bits: bits % (bitsOf(list[at].address) + 1), value }] : [])),
  ])

test('a lookup finds what a search for the longest prefix finds', () => {
  fc.assert(
    fc.property(networks, fc.array(fc.tuple(fc.nat(30), anyAddress, fc.nat(128))), (list, probes) => {
      const map = new CidrMap<string>()
      for (const { address, bits, value } of list) {
        expect(map.add(bits === bitsOf(address) ? textOf(address) : `${textOf(address)}/${bits}`, value)).toBe(true)
      }
      for (const [at, random, flipped] of probes) {
        // Half of the probes are one bit away from a network's own address.
        const near = list[at]?.address
        const probe = near === undefined ? random : { ...near, number: near.number ^ (1n << BigInt(flipped % bitsOf(near))) }
        if (probe.isV6 && probe.number >> 32n === 0xffffn) continue
        expect(map.lookup(addressOf(probe))).toBe(longestPrefix(list, probe))
      }
    }),
    { numRuns: runs(20) },
  )
})

test('a map takes a network inside ::ffff:0:0/96 as the IPv4 network that it is', () => {
  fc.assert(
    fc.property(anyAddress, fc.nat(32), (address, bits) => {
      fc.pre(!address.isV6)
      const map = new CidrMap<true>()
      expect(map.add(`::ffff:${textOf(address)}/${96 + bits}`, true)).toBe(true)
      expect(map.lookup(addressOf(address))).toBe(true)
      if (bits === 0) return
      const outside = { ...address, number: address.number ^ (1n << BigInt(32 - bits)) }
      expect(map.lookup(addressOf(outside))).toBeUndefined()
    }),
  )
})

test('a map refuses any text that is no network, and is as it was', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'0123456789./:af ') })), anyAddress, (text, probe) => {
      const map = new CidrMap<true>()
      const isNetwork = /^\s*[0-9a-f.:]+(?:\/\d{1,3})?\s*$/i.test(text)
      if (!isNetwork) expect(map.add(text, true)).toBe(false)
      else if (map.add(text, true)) return
      expect(map.lookup(addressOf(probe))).toBeUndefined()
    }),
  )
})

/** Of networks that are the same one, the last. */
function longestPrefix(list: readonly Network[], probe: NumericAddress): string | undefined {
  let best: Network | undefined
  for (const candidate of list) {
    if (candidate.address.isV6 !== probe.isV6) continue
    const rest = BigInt(bitsOf(probe) - candidate.bits)
    if (candidate.address.number >> rest !== probe.number >> rest) continue
    if (best === undefined || candidate.bits >= best.bits) best = candidate
  }
  return best?.value
}
