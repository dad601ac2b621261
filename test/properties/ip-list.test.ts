import fc from 'fast-check'
import { expect, test } from 'vitest'
import { shareList } from '../../src/ip-data/ip-databases.ts'
import { SharedCidrMap } from '../../src/request/cidr-map.ts'
import { readTorExits, readTypeList } from '../../src/request/ip-facts.ts'
import { addressOf, anyAddress, bitsOf, type NumericAddress, textOf } from '../support/random/addresses.ts'
import { anyText } from '../support/random/texts.ts'

const NEVER_BAD = ['', '# a comment', '   \t', '#', '\r']

const network = fc.tuple(anyAddress, fc.nat(128)).map(([address, bits]) => ({ address, bits: bits % (bitsOf(address) + 1) }))
const type = fc.oneof(fc.constantFrom('hosting', 'isp', 'mobile', 'Zürich, odd', '\ufeffx', '日本'), anyText.filter(isOneWord))
const around = fc.constantFrom('', ' ', '\t', '\r', ' # why', '#')

interface Line {
  readonly text: string
  readonly address?: NumericAddress
}

const emptyLine = fc.constantFrom(...NEVER_BAD).map((text): Line => ({ text }))
const typeLine = fc
  .tuple(network, type, around, fc.constantFrom('', ' '))
  .map(([{ address, bits }, name, end, start]): Line => ({ text: `${start}${textOf(address)}/${bits},${name}${end}`, address }))
const exitLine = fc.tuple(network, around).map(([{ address, bits }, end]): Line => ({ text: `${textOf(address)}/${bits}${end}`, address }))

test('a list of types in shared memory knows what the same list knows as a map', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(typeLine, emptyLine)), fc.array(anyAddress), (lines, probes) => {
      const text = lines.map((line) => line.text).join('\n')
      const { map, entryCount, badLineCount } = readTypeList(text)
      expect(badLineCount).toBe(0)
      const shared = whole(shareList('ipType', Buffer.from(text)))
      expect(shared.entryCount).toBe(entryCount)
      const sharedMap = new SharedCidrMap(shared.networks)
      for (const probe of [...probes, ...addressesNear(lines)]) {
        const expected = map.lookup(addressOf(probe))
        for (let time = 0; time < 2; time++) expect(sharedMap.lookup(addressOf(probe))).toBe(expected)
      }
    }),
  )
})

test('a list of exits in shared memory knows what the same list knows as a map', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(exitLine, emptyLine)), fc.array(anyAddress), (lines, probes) => {
      const text = lines.map((line) => line.text).join('\n')
      const { map, entryCount } = readTorExits(text)
      const shared = whole(shareList('torExits', Buffer.from(text)))
      expect(shared.entryCount).toBe(entryCount)
      const sharedMap = new SharedCidrMap(shared.networks)
      for (const probe of [...probes, ...addressesNear(lines)]) {
        expect(sharedMap.lookup(addressOf(probe)) !== undefined).toBe(map.lookup(addressOf(probe)) === true)
      }
    }),
  )
})

test('any bytes are read, or refused with the lines that are wrong, as their text is', () => {
  const pieces = fc.oneof(
    fc.uint8Array(),
    fc
      .oneof(
        typeLine.map((line) => line.text),
        anyText,
        fc.constant('\n'),
      )
      .map((text) => Buffer.from(text)),
  )
  fc.assert(
    fc.property(fc.array(pieces), fc.constantFrom('ipType', 'torExits'), (parts, kind) => {
      const bytes = Buffer.concat(parts)
      const read = kind === 'ipType' ? readTypeList : readTorExits
      const { entryCount, badLines } = read(bytes.toString('utf8'))
      let problem = ''
      let shared: { entryCount: number } = { entryCount: -1 }
      try {
        shared = whole(shareList(kind, bytes))
      } catch (error) {
        problem = (error as Error).message
      }
      if (badLines.length === 0) expect(shared.entryCount).toBe(entryCount)
      else expect(problem).toMatch(new RegExp(`^cannot read line ${badLines.slice(0, 5).join(', ')}\\b`))
    }),
  )
})

/** The networks' own addresses, and neighbours of theirs. */
function addressesNear(lines: readonly Line[]): NumericAddress[] {
  return lines.flatMap(({ address }) =>
    address === undefined ? [] : [0n, 1n, 1n << 8n, 1n << 31n].map((flipped) => ({ ...address, number: address.number ^ flipped })),
  )
}

function isOneWord(text: string): boolean {
  return text.trim() === text && text !== '' && !/[#\n]/.test(text) && text.isWellFormed()
}

function whole<Result>(steps: Generator<void, Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
