import { describe, expect, test } from 'vitest'
import { formatAddress, parseAddress } from '../text/address.ts'
import { clientAddress, DEFAULT_TRUSTED_PROXIES, TrustedProxies } from './client-address.ts'

describe('the client behind X-Forwarded-For', () => {
  test.each([
    ['the only address', '203.0.113.7', '203.0.113.7'],
    ['left of trusted proxies', '203.0.113.7, 10.0.0.1, 127.0.0.1', '203.0.113.7'],
    ['not what a stranger claims', '1.1.1.1, 203.0.113.7, 10.0.0.1', '203.0.113.7'],
    ['the rightmost of two strangers', '203.0.113.7, 198.51.100.1', '198.51.100.1'],
    ['the leftmost where all are trusted', '10.0.0.3, 10.0.0.2, 10.0.0.1', '10.0.0.3'],
    ['with a port', '203.0.113.7:1234, 10.0.0.1:80', '203.0.113.7'],
    ['IPv6', '2001:db8::7, fd00::1', '2001:db8:0:0:0:0:0:7'],
    ['IPv6 with a port', '[2001:db8::7]:443,[::1]:80', '2001:db8:0:0:0:0:0:7'],
    ['beyond a proxy written as IPv4 in IPv6', '203.0.113.7, ::ffff:10.0.0.1', '203.0.113.7'],
    ['beyond empty entries', ', 203.0.113.7 ,, ,10.0.0.1,', '203.0.113.7'],
    ['right of garbage that nobody vouches for', 'garbage, 203.0.113.7', '203.0.113.7'],
    ['behind two hundred hops', `203.0.113.7, ${new Array(200).fill('10.0.0.1').join(', ')}`, '203.0.113.7'],
  ])('is %s', (_, header, expected) => {
    expect(formatAddress(clientAddress(header, new TrustedProxies())!)).toBe(expected)
  })

  test.each([
    ['no header', undefined],
    ['an empty header', ''],
    ['commas alone', ' , ,,'],
    ['garbage', 'garbage'],
    ['garbage right of the client', '203.0.113.7, unknown'],
    ['garbage between trusted proxies', '203.0.113.7, _x, 10.0.0.1'],
    ['garbage left of trusted proxies', '1.2.3, 10.0.0.1'],
  ])('is nobody for %s', (_, header) => {
    expect(clientAddress(header, new TrustedProxies())).toBeUndefined()
  })
})

describe('trusted proxies', () => {
  test.each([
    '127.0.0.1',
    '127.255.255.255',
    '::1',
    '169.254.0.1',
    'fe80::1',
    'febf::1',
    '10.0.0.0',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    'fc00::1',
    'fdff::1',
  ])('are by default in private networks: %s', (address) => {
    expect(new TrustedProxies().includes(parseAddress(address)!)).toBe(true)
  })

  test.each([
    '126.255.255.255',
    '128.0.0.1',
    '::2',
    '169.255.0.1',
    'fec0::1',
    '11.0.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.169.0.0',
    'fbff::1',
    'fe00::1',
  ])('are by default nowhere else: %s', (address) => {
    expect(new TrustedProxies().includes(parseAddress(address)!)).toBe(false)
  })

  test('are named by networks, addresses and words, in any case and spacing', () => {
    const proxies = new TrustedProxies(' Loopback ,203.0.113.0/24,, 2001:db8::1')
    for (const address of ['127.0.0.1', '::1', '203.0.113.9', '2001:db8::1']) expect(proxies.includes(parseAddress(address)!)).toBe(true)
    for (const address of ['10.0.0.1', '203.0.114.1', '2001:db8::2']) expect(proxies.includes(parseAddress(address)!)).toBe(false)
  })

  test('are nobody where the list is empty', () => {
    expect(new TrustedProxies('').includes(parseAddress('127.0.0.1')!)).toBe(false)
  })

  test('by default are the three words together', () => {
    expect(DEFAULT_TRUSTED_PROXIES.split(',').sort()).toEqual(['linklocal', 'loopback', 'uniquelocal'])
  })

  test.each([
    ['10.0.0.0/33, loopback, nobody, 10.0.0.1:80', ['10.0.0.0/33', 'nobody', '10.0.0.1:80']],
    ['constructor, __proto__, toString', ['constructor', '__proto__', 'toString']],
  ])('that cannot be read are all named: %s', (list, expected) => {
    const bad: string[] = []
    new TrustedProxies(list, (entry) => bad.push(entry))
    expect(bad).toEqual(expected)
  })
})
