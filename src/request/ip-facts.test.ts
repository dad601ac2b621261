import { describe, expect, test } from 'vitest'
import { parseAddress } from '../text/address.ts'
import { readTorExits, readTorOverride, readTypeList } from './ip-facts.ts'

describe('a list of network types', () => {
  test('is read line by line, comments and white space aside, the most specific network first', () => {
    const { map, entryCount, badLines } = readTypeList(
      '# types\n10.0.0.0/8,hosting\n\n  10.1.0.0/16 , isp \r\n2001:db8::/32,mobile # a comment\n10.2.0.1,edu,really\n',
    )
    expect([entryCount, badLines]).toEqual([4, []])
    const typeOf = (text: string) => map.lookup(parseAddress(text)!)
    expect(['10.9.9.9', '10.1.9.9', '2001:db8::1', '10.2.0.1', '11.0.0.1'].map(typeOf)).toEqual([
      'hosting',
      'isp',
      'mobile',
      'edu,really',
      undefined,
    ])
  })

  test('names the lines that cannot be read, and reads the others', () => {
    const { entryCount, badLines } = readTypeList('hosting\n10.0.0.0/8,hosting\n10.0.0.0/8,\n,hosting\n10.0.0.0/99,x\n\n10.0.0.0/8 hosting')
    expect([entryCount, badLines]).toEqual([1, [1, 3, 4, 5, 7]])
  })
})

describe('a list of Tor exits', () => {
  test('is an address or network a line', () => {
    const { map, entryCount, badLines } = readTorExits('203.0.113.7\n# x\n2001:db8::/32\r\nExitAddress 1.2.3.4\n')
    expect([entryCount, badLines]).toEqual([2, [4]])
    expect(map.lookup(parseAddress('203.0.113.7')!)).toBe(true)
    expect(map.lookup(parseAddress('2001:db8::9')!)).toBe(true)
    expect(map.lookup(parseAddress('203.0.113.8')!)).toBeUndefined()
  })

  test('may be empty', () => {
    expect(readTorExits('').entryCount).toBe(0)
    expect(readTorExits('# nothing\n\n').badLines).toEqual([])
  })
})

describe('X-Tor-Exit', () => {
  test.each(['1', 'true', 'yes', 'TRUE', 'Yes', ' 1 '])('%j is yes', (header) => {
    expect(readTorOverride(header)).toBe(true)
  })

  test.each(['0', 'false', 'no', 'False', ' NO '])('%j is no', (header) => {
    expect(readTorOverride(header)).toBe(false)
  })

  test.each([undefined, '', '2', 'y', 'on', 'maybe', '1, 0', 'truetrue'])('%j says nothing', (header) => {
    expect(readTorOverride(header)).toBeUndefined()
  })
})
