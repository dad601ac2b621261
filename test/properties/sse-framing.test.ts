import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readEventData, SseFraming, type SsePiece } from '../../src/llm/sse-framing.ts'
import { parseSse } from '../support/llm/llm-streams.ts'
import { finished, pushed } from '../support/llm/sse-pieces.ts'
import { anyText } from '../support/random/any-text.ts'
import { runs } from '../support/run/property-runs.ts'

const LARGE = 1 << 20

/** Streams of the bytes that matter to the framing, and of any. */
const anyStream = fc.oneof(
  fc.string({
    unit: fc.constantFrom('\n', '\r', '\r\n', '\n\n', '\r\n\r\n', 'data: x', 'data:', 'data', ': c', 'event: e', '\ufeff', 'x', '😀'),
    maxLength: 60,
  }),
  fc.string({ unit: fc.constantFrom('\n', '\r', 'x', ':'), maxLength: 40 }),
  anyText({ maxLength: 60 }),
)
const anyBytes = fc.oneof(
  anyStream.map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
)
/** Where chunks end, as shares of the stream; the same place twice is an empty chunk. */
const anyCuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })
const anyLimit = fc.constantFrom(1, 2, 5, 10, 20, LARGE)

describe('a framing', () => {
  test('gives every byte back once and in order, whatever comes in whatever chunks', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, anyLimit, (bytes, cuts, maxEventBytes) => {
        expect(Buffer.concat(piecesOf(chunksOf(bytes, cuts), maxEventBytes).map((piece) => piece.bytes))).toEqual(bytes)
      }),
      { numRuns: runs(80) },
    )
  })

  test('reads the same events out of any chunks, and those that a client reads', () => {
    fc.assert(
      fc.property(anyStream, anyCuts, (text, cuts) => {
        const bytes = Buffer.from(text)
        const expected = parseSse(bytes.toString()).map(({ data }) => data)
        expect(dataOf(piecesOf([bytes]))).toEqual(expected)
        expect(dataOf(piecesOf(chunksOf(bytes, cuts)))).toEqual(expected)
        expect(dataOf(piecesOf(singleBytes(bytes)))).toEqual(expected)
      }),
      { numRuns: runs(80) },
    )
  })

  test('holds no event back whose blank line is there', () => {
    fc.assert(
      fc.property(anyStream, anyCuts, (text, cuts) => {
        const framing = new SseFraming(LARGE)
        let [taken, given] = ['', 0]
        for (const chunk of chunksOf(Buffer.from(text), cuts)) {
          taken += chunk.toString('latin1')
          for (const { bytes } of pushed(framing, chunk)) given += bytes.length
          const held = taken.slice(given).split(/\r\n|\r|\n/)
          expect(held.slice(0, -1)).not.toContain('')
        }
      }),
    )
  })

  test('never holds more than it may', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, anyLimit, (bytes, cuts, maxEventBytes) => {
        const framing = new SseFraming(maxEventBytes)
        let held = 0
        for (const chunk of chunksOf(bytes, cuts)) {
          held += chunk.length
          for (const piece of pushed(framing, chunk)) held -= piece.bytes.length
          expect(held).toBeLessThanOrEqual(maxEventBytes)
        }
      }),
    )
  })

  test('holds no event above its bound, and passes each that is, in parts that add up to it', () => {
    fc.assert(
      fc.property(anyBytes, anyCuts, anyLimit, (bytes, cuts, maxEventBytes) => {
        let passed = 0
        for (const { kind, bytes: piece } of piecesOf(chunksOf(bytes, cuts), maxEventBytes)) {
          if (kind === 'event') expect(piece.length).toBeLessThanOrEqual(maxEventBytes)
          if (kind === 'oversize') expect(passed + piece.length).toBeGreaterThan(maxEventBytes)
          passed = kind === 'part' ? passed + piece.length : 0
        }
      }),
      { numRuns: runs(80) },
    )
  })
})

function piecesOf(chunks: readonly Buffer[], maxEventBytes = LARGE): SsePiece[] {
  const framing = new SseFraming(maxEventBytes)
  return [...chunks.flatMap((chunk) => pushed(framing, chunk)), ...finished(framing)]
}

function dataOf(pieces: readonly SsePiece[]): string[] {
  return pieces
    .filter(({ kind }) => kind === 'event')
    .map(readEventData)
    .filter((data) => data !== undefined)
    .map(({ text }) => text)
}

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b), bytes.length]
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

function singleBytes(bytes: Buffer): Buffer[] {
  return Array.from(bytes, (byte) => Buffer.of(byte))
}
