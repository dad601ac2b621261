import { describe, expect, test } from 'vitest'
import { sized } from '../../test/support/run/property-runs.ts'
import { parseAddress } from '../text/address.ts'
import { CidrMap } from './cidr-map.ts'

describe('a map of networks', () => {
  test('knows the most specific one, whatever order they came in', () => {
    const networks = ['10.0.0.0/8', '10.1.0.0/16', '10.1.2.3', '0.0.0.0/0']
    for (const order of [networks, networks.toReversed()]) {
      const map = mapOf(order)
      expect(lookUp(map, '10.1.2.3')).toBe('10.1.2.3')
      expect(lookUp(map, '10.1.2.4')).toBe('10.1.0.0/16')
      expect(lookUp(map, '10.2.0.1')).toBe('10.0.0.0/8')
      expect(lookUp(map, '11.0.0.1')).toBe('0.0.0.0/0')
    }
  })

  test('keeps IPv4 and IPv6 apart', () => {
    expect(lookUp(mapOf(['::/0']), '10.0.0.1')).toBeUndefined()
    expect(lookUp(mapOf(['0.0.0.0/0']), '::1')).toBeUndefined()
    expect(lookUp(mapOf(['::/0']), '2001:db8::1')).toBe('::/0')
  })

  test('takes the last word on a network', () => {
    const map = new CidrMap<string>()
    map.add('10.0.0.0/8', 'first')
    map.add('10.9.9.9/8', 'second')
    expect(map.lookup(parseAddress('10.1.1.1')!)).toBe('second')
  })

  test('knows nothing of what it was not told', () => {
    expect(lookUp(mapOf([]), '10.0.0.1')).toBeUndefined()
    expect(lookUp(mapOf(['10.0.0.0/9']), '10.128.0.0')).toBeUndefined()
    expect(lookUp(mapOf(['2001:db8::/127']), '2001:db8::2')).toBeUndefined()
  })

  test('holds no more than its memory, and still knows what it held', () => {
    const map = new CidrMap<number>(1024 ** 2)
    const addresses = Array.from({ length: 2000 }, (_, i) => `2001:db8:${((i * 40503) % 65536).toString(16)}:${i}::${i}`)
    let held = 0
    const addAll = (): void => addresses.forEach((address, i) => void (map.add(address, i) && held++))
    expect(addAll).toThrow('its networks take more than 1 MiB of memory')
    expect(held).toBeGreaterThan(300)
    expect(map.lookup(parseAddress(addresses[held - 1]!)!)).toBe(held - 1)
  })

  test('holds very many networks', () => {
    const map = new CidrMap<number>()
    const text = (i: number): string => `${1 + (i >>> 16)}.${(i >>> 8) & 255}.${i & 255}.0/24`
    const count = sized(10_000, 100_000)
    for (let i = 0; i < count; i++) map.add(text(i), i)
    for (let i = 0; i < count; i += 997) expect(map.lookup(parseAddress(text(i).replace('.0/24', '.77'))!)).toBe(i)
  })

  test.each(['10.0.0.0/8', ' 10.0.0.0/8 ', '10.0.0.1', '10.0.0.0/0', '10.0.0.0/32', '::/0', '::1/128', 'fc00::/7', '::ffff:10.0.0.0/104'])(
    'takes %j',
    (text) => {
      expect(new CidrMap<true>().add(text, true)).toBe(true)
    },
  )

  test.each([
    '',
    '/8',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/eight',
    '10.0.0.0/8.0',
    '10.0.0.0 /8',
    '10.0.0/8',
    '10.0.0.1:80',
    '10.0.0.1:80/32',
    '[::1]',
    '[::1]:80',
    '::/129',
    '::1%eth0',
    '::ffff:10.0.0.0/8',
    'loopback',
    '*',
  ])('refuses %j', (text) => {
    expect(new CidrMap<true>().add(text, true)).toBe(false)
  })
})

function mapOf(networks: readonly string[]): CidrMap<string> {
  const map = new CidrMap<string>()
  for (const network of networks) map.add(network, network)
  return map
}

function lookUp(map: CidrMap<string>, text: string): string | undefined {
  return map.lookup(parseAddress(text)!)
}
