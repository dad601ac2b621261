import { describe, expect, test } from 'vitest'
import { newWrongSecretsBuffer, WrongSecrets } from './wrong-secrets.ts'

const ATTACKER = '203.0.113.7'
const MINUTE_MS = 60_000

describe('the wrong secrets of a peer', () => {
  test('are counted within a minute, up to a bound', () => {
    const secrets = new WrongSecrets(newWrongSecretsBuffer())
    const counts = Array.from({ length: 300 }, () => secrets.add(ATTACKER, 1))
    expect(counts.slice(0, 12)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    expect(counts.at(-1)).toBe(255)
    expect(secrets.add(ATTACKER, MINUTE_MS)).toBe(1)
  })

  test('are counted together by all threads', () => {
    const buffer = newWrongSecretsBuffer()
    const [one, two] = [new WrongSecrets(buffer), new WrongSecrets(buffer)]
    expect([one.add(ATTACKER, 1), two.add(ATTACKER, 1), one.add(ATTACKER, 1)]).toEqual([1, 2, 3])
  })

  test.each([
    ['addresses of one IPv6 network', '2001:db8::1', '2001:db8::ffff:1', 2],
    ['addresses of two IPv6 networks', '2001:db8::1', '2001:db8:0:1::1', 1],
    ['an IPv4 address, written as IPv6 too', '203.0.113.7', '::ffff:203.0.113.7', 2],
    ['two IPv4 addresses', '203.0.113.7', '203.0.113.8', 1],
    ['peers without an address', undefined, undefined, 2],
  ])('of %s', (_, first, second, count) => {
    const secrets = new WrongSecrets(newWrongSecretsBuffer())
    secrets.add(first, 1)
    expect(secrets.add(second, 1)).toBe(count)
  })

  test('are not forgotten for a flood from other addresses, and take no more memory for it', () => {
    const buffer = newWrongSecretsBuffer()
    const secrets = new WrongSecrets(buffer)
    for (let i = 0; i < 10; i++) secrets.add(ATTACKER, 1)
    for (let i = 0; i < 20_000; i++) secrets.add(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, 1)
    expect(secrets.add(ATTACKER, 1)).toBeGreaterThan(10)
    expect(buffer.byteLength).toBeLessThan(8192)
  })

  test('count from anew for everybody in the next minute, also long after the start', () => {
    const secrets = new WrongSecrets(newWrongSecretsBuffer())
    const years = 40 * 365 * 24 * 60 * MINUTE_MS
    for (let i = 0; i < 20; i++) secrets.add(ATTACKER, years)
    expect(secrets.add(ATTACKER, years)).toBe(21)
    expect(secrets.add(ATTACKER, years + MINUTE_MS)).toBe(1)
  })
})
