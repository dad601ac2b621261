import fc from 'fast-check'
import { expect, test } from 'vitest'
import { clientAddress, TrustedProxies } from '../../src/request/client-address.ts'
import { formatAddress, parseAddress } from '../../src/text/address.ts'
import { addressOf, anyAddress, textOf } from '../support/random/addresses.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

const TRUSTED = [
  '127.0.0.1',
  '10.1.2.3',
  '172.16.0.9',
  '192.168.255.1',
  '169.254.1.1',
  '::1',
  'fe80::1',
  'fd00::7',
  '::ffff:10.0.0.1',
  '[::1]:80',
]
const STRANGERS = ['203.0.113.7', '8.8.8.8:1234', '172.32.0.1', '2001:db8::1', '[2001:db8::2]:443', '::ffff:203.0.113.9', 'fe00::1']
const UNREADABLE = ['unknown', '_hidden', '1.2.3', '1.2.3.4.5', '::1::', '"10.0.0.1"', '10.0.0.1/8', '[::1', '300.1.1.1']

const entry = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...TRUSTED).map((text) => ({ kind: 'trusted', text })) },
  { weight: 2, arbitrary: fc.constantFrom(...STRANGERS).map((text) => ({ kind: 'stranger', text })) },
  { weight: 1, arbitrary: fc.constantFrom(...UNREADABLE).map((text) => ({ kind: 'unreadable', text })) },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', '\t').map((text) => ({ kind: 'empty', text })) },
)

test('the client is the first stranger from the right, else the leftmost, and nobody beyond an unreadable entry', () => {
  const proxies = new TrustedProxies()
  fc.assert(
    fc.property(fc.array(fc.tuple(entry, fc.constantFrom('', ' ', '  ')), { maxLength: 12 }), (list) => {
      const header = list.map(([{ text }, space]) => `${space}${text}${space}`).join(',')
      const entries = list.map(([each]) => each).filter(({ kind }) => kind !== 'empty')
      const decisive = entries.findLast(({ kind }) => kind !== 'trusted') ?? entries[0]
      const expected = decisive?.kind === 'unreadable' ? undefined : decisive && parseAddress(decisive.text)
      expect(clientAddress(header, proxies)).toEqual(expected)
    }),
    { numRuns: runs(80) },
  )
})

test('whatever is sent left of the first stranger changes nothing', () => {
  const proxies = new TrustedProxies()
  fc.assert(
    fc.property(anyText(), fc.constantFrom(...STRANGERS), fc.array(fc.constantFrom(...TRUSTED)), (forged, stranger, hops) => {
      const honest = [stranger, ...hops].join(', ')
      expect(clientAddress(`${forged}, ${honest}`, proxies)).toEqual(clientAddress(honest, proxies))
    }),
  )
})

test('with nobody trusted the client is the rightmost address', () => {
  const nobody = new TrustedProxies('')
  fc.assert(
    fc.property(fc.array(anyAddress, { minLength: 1 }), (list) => {
      expect(clientAddress(list.map(textOf).join(','), nobody)).toEqual(addressOf(list.at(-1)!))
    }),
  )
})

test('trusting an address exempts that address and no other', () => {
  fc.assert(
    fc.property(anyAddress, anyAddress, (trusted, other) => {
      fc.pre(textOf(trusted) !== textOf(other))
      const proxies = new TrustedProxies(textOf(trusted))
      expect(proxies.includes(addressOf(trusted))).toBe(true)
      expect(proxies.includes(addressOf(other))).toBe(false)
    }),
  )
})

test('any text in the header is read without a crash', () => {
  const proxies = new TrustedProxies()
  fc.assert(
    fc.property(fc.oneof(anyText(), fc.string({ unit: fc.constantFrom(...',,,1.:[] %') })), (header) => {
      const client = clientAddress(header, proxies)
      if (client !== undefined) expect(parseAddress(formatAddress(client))).toEqual(client)
    }),
  )
})
