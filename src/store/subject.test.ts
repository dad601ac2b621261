import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sized } from '../../test/support/run/property-runs.ts'
import { HalfSipHash, SubjectWords } from './subject.ts'

const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
const key = fc.tuple(word, word)

describe('the plain HalfSipHash of this test', () => {
  // Published with the reference implementation: HalfSipHash-2-4-64, key 00 01 … 07, input 00 01 … of this many bytes.
  test.each([
    [0, '218d1f59b9b83cc8'],
    [1, 'be552412f8387315'],
    [4, 'd5e78a175be52ea1'],
    [7, 'ff202728b07bc684'],
    [8, 'edfee820bce4858c'],
    [12, '7bc71f9faef5c799'],
  ])('is the published one, over %i bytes', (length, published) => {
    const bytes = Uint8Array.from({ length }, (_, i) => i)
    expect(plainHash(2, 4, [0x03020100, 0x07060504], bytes)).toBe(published)
  })
})

describe('the hash', () => {
  test('is HalfSipHash-1-3 with 64 bits of output', () => {
    fc.assert(
      fc.property(key, fc.array(word, { maxLength: 100 }), (secret, words) => {
        expect(hashOf(new HalfSipHash(secret), words)).toBe(plainHash(1, 3, secret, bytesOf(words)))
      }),
      { numRuns: 500 },
    )
  })

  test('taken up from a saved beginning is the same as in one go', () => {
    fc.assert(
      fc.property(key, fc.array(word), fc.array(word), fc.array(word), (secret, beginning, others, end) => {
        const hash = new HalfSipHash(secret)
        const state = hash.absorb(Int32Array.from(beginning), beginning.length)
        hashOf(hash, others)
        hash.digest(Int32Array.from(end), end.length, state)
        expect(hexOf(hash)).toBe(hashOf(new HalfSipHash(secret), [...beginning, ...end]))
      }),
    )
  })

  test('depends on the key', () => {
    fc.assert(
      fc.property(key, key, fc.array(word), (secret, other, words) => {
        fc.pre(secret[0] !== other[0] || secret[1] !== other[1])
        expect(hashOf(new HalfSipHash(secret), words)).not.toBe(hashOf(new HalfSipHash(other), words))
      }),
    )
  })
})

describe('similar subjects', () => {
  const SETS = 256
  const COUNT = sized(16, 64) * SETS
  const families: [string, (i: number) => string][] = [
    ['numbers', String],
    ['padded numbers', (i) => String(i).padStart(12, '0')],
    ['addresses', (i) => `10.0.${i >>> 8}.${i & 255}`],
    ['texts of one letter', (i) => 'a'.repeat(i % 512) + String.fromCharCode(i >>> 9)],
  ]

  test.each(families)('spread evenly over sets, and none share all 64 bits: %s', (_, subject) => {
    const hash = new HalfSipHash([0x12345678, -0x6543210f])
    const words = new SubjectWords()
    const lowCounts = new Array<number>(SETS).fill(0)
    const highCounts = new Array<number>(SETS).fill(0)
    const seen = new Set<string>()
    for (let i = 0; i < COUNT; i++) {
      words.clear()
      words.addIdentity(['policy', 'rule'])
      words.addText(subject(i))
      hash.digest(words.words, words.length)
      lowCounts[hash.low >>> 24]!++
      highCounts[hash.high >>> 24]!++
      seen.add(hexOf(hash))
    }
    expect(seen.size).toBe(COUNT)
    // 255 degrees of freedom: a fair hash exceeds 370 once in a million keys, and this key is fixed.
    expect(chiSquare(lowCounts, COUNT / SETS)).toBeLessThan(370)
    expect(chiSquare(highCounts, COUNT / SETS)).toBeLessThan(370)
  })
})

function hashOf(hash: HalfSipHash, words: readonly number[]): string {
  hash.digest(Int32Array.from(words), words.length)
  return hexOf(hash)
}

function hexOf({ low, high }: HalfSipHash): string {
  return Buffer.from(bytesOf([low, high])).toString('hex')
}

function bytesOf(words: readonly number[]): Uint8Array {
  const bytes = Buffer.alloc(words.length * 4)
  for (const [i, each] of words.entries()) bytes.writeInt32LE(each, i * 4)
  return bytes
}

function chiSquare(counts: readonly number[], expected: number): number {
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
}

/** HalfSipHash-c-d over bytes, line by line as Aumasson and Bernstein describe it, on integers of any size. */
function plainHash(c: number, d: number, [k0, k1]: readonly [number, number], bytes: Uint8Array): string {
  const u32 = (value: number | bigint): bigint => BigInt.asUintN(32, BigInt(value))
  const rotate = (value: bigint, by: bigint): bigint => u32((value << by) | (value >> (32n - by)))
  let [v0, v1, v2, v3] = [u32(k0), u32(k1) ^ 0xeen, u32(k0) ^ 0x6c796765n, u32(k1) ^ 0x74656462n]
  const rounds = (count: number): void => {
    for (let i = 0; i < count; i++) {
      v0 = u32(v0 + v1)
      v1 = rotate(v1, 5n) ^ v0
      v0 = rotate(v0, 16n)
      v2 = u32(v2 + v3)
      v3 = rotate(v3, 8n) ^ v2
      v0 = u32(v0 + v3)
      v3 = rotate(v3, 7n) ^ v0
      v2 = u32(v2 + v1)
      v1 = rotate(v1, 13n) ^ v2
      v2 = rotate(v2, 16n)
    }
  }
  // The last block is what is left of the input, with the length in its top byte.
  const padded = [...bytes, ...new Array<number>(3 - (bytes.length % 4)).fill(0), bytes.length & 0xff]
  for (let i = 0; i < padded.length; i += 4) {
    const block = u32(Buffer.from(padded).readUInt32LE(i))
    v3 ^= block
    rounds(c)
    v0 ^= block
  }
  v2 ^= 0xeen
  rounds(d)
  const first = v1 ^ v3
  v1 ^= 0xddn
  rounds(d)
  return Buffer.from(bytesOf([first, v1 ^ v3].map((half) => Number(BigInt.asIntN(32, half))))).toString('hex')
}
