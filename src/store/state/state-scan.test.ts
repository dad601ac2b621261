import { randomBytes } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { CLOCK, complaintAbout, MOMENT, savedFile } from '../../../test/support/state/scanned-file.ts'
import { recordsPayload, sectionBytes, sectionsOf, withSections } from '../../../test/support/state/sections.ts'
import { bucketRecord, clockAt, HASH_KEY, newFolder, readGood, save, tableOf } from '../../../test/support/state/state.ts'
import { sealed } from '../../../test/support/state/version-1.ts'
import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { LEASE_BLOCK, RESET } from '../table/table-layout.ts'
import { StateFile } from './state-file.ts'
import { NONSENSE } from './state-format.ts'

/** Of a kind that later programs may have, of something that is no record, of more than is written at once, and without a payload. */
const UNKNOWN = [
  sectionBytes(100, recordsPayload({}, {}), MOMENT),
  sectionBytes(256, Buffer.from('keys, of any length'), MOMENT),
  sectionBytes(100, recordsPayload({}), { wallMs: 1, nowMs: 2 }),
  sectionBytes(257, randomBytes(600_000), MOMENT),
  sectionBytes(4_000_000_000, Buffer.alloc(0), MOMENT),
]

describe('sections that this program does not know', () => {
  test('are written back by every save, byte for byte, beside the counters of that moment', async () => {
    const { path, good } = await savedFile()
    await writeFile(path, withSections(good, ...UNKNOWN))
    for (const level of [50, 40, 30]) {
      const { unknownSections } = await readGood(path, CLOCK)
      expect(unknownSections.equals(Buffer.concat(UNKNOWN))).toBe(true)
      const table = tableOf(64, [bucketRecord(1, level, 1000)], 1000)
      const file = new StateFile({ path, table, hashKey: HASH_KEY, clock: CLOCK, unknownSections })
      const { bytes } = await file.save()
      expect([await file.save(), (await stat(path)).size]).toEqual([{ counters: 1, bytes }, bytes])
      const saved = sectionsOf(await readFile(path))
      expect(
        Buffer.concat(saved.filter(({ type }) => type !== BUCKET).map((section) => section.bytes)).equals(Buffer.concat(UNKNOWN)),
      ).toBe(true)
      expect(await readGood(path, CLOCK)).toMatchObject({ counters: 1, live: 1 })
    }
  })

  test('count as no counters, wherever they stand', async () => {
    const { path, good } = await savedFile()
    const known = sectionsOf(good).map(({ bytes }) => bytes)
    const body = Buffer.concat([good.subarray(0, 40), UNKNOWN[0]!, ...known.toReversed(), UNKNOWN[1]!, good.subarray(-56, -32)])
    await writeFile(path, sealed(body))
    expect(await readGood(path, CLOCK)).toMatchObject({ counters: 2, live: 2 })
  })

  test('that claim to be longer than the file are not waited for', async () => {
    const { path, good } = await savedFile()
    const lying = Buffer.from(UNKNOWN[1]!)
    lying.writeUInt32LE(2 ** 32 - 1, 4)
    await writeFile(path, withSections(good, lying))
    expect(await complaintAbout(path)).toBe('it is truncated')
  })
})

describe('a section of records, under a good checksum,', () => {
  test.each<[string, string, Buffer]>([
    ['whose length is no multiple of a record', NONSENSE, sectionBytes(BUCKET, Buffer.alloc(33))],
    ['that is shorter than a record', NONSENSE, sectionBytes(RESET, Buffer.alloc(1))],
    ['with a level that is no number', NONSENSE, sectionBytes(BUCKET, recordsPayload({}, { level: Number.NaN }))],
    ['with an end that never comes', NONSENSE, sectionBytes(WINDOW, recordsPayload({ at: Number.POSITIVE_INFINITY }))],
    ['with a lease in the place of a bucket', NONSENSE, sectionBytes(BUCKET, recordsPayload({ rate: -1 }))],
    ['without a time', NONSENSE, sectionBytes(BUCKET, recordsPayload({}), { wallMs: Number.NaN, nowMs: 0 })],
    ['with an endless time', NONSENSE, sectionBytes(BUCKET, recordsPayload({}), { wallMs: 0, nowMs: Number.NEGATIVE_INFINITY })],
    ['that is longer than the file', 'it is truncated', withLength(sectionBytes(BUCKET, recordsPayload({})), 128)],
    ['that is longer than any file', 'it is truncated', withLength(sectionBytes(BUCKET, recordsPayload({})), 2 ** 32 - 32)],
    ['that takes the end for a record', 'it is truncated', withLength(sectionBytes(BUCKET, recordsPayload({})), 64)],
    ['that is longer than it says', 'it is truncated', withLength(sectionBytes(BUCKET, recordsPayload({}, {})), 32)],
  ])('%s refuses the whole file', async (_, reason, section) => {
    const { path, good } = await savedFile()
    await writeFile(path, withSections(good, section))
    expect(await complaintAbout(path)).toBe(reason)
  })

  test('may come as often as it likes, or without a record', async () => {
    const { path, good } = await savedFile()
    const empty = sectionBytes(BUCKET, Buffer.alloc(0), MOMENT)
    await writeFile(path, withSections(good, empty, sectionsOf(good)[0]!.bytes, empty))
    expect(await readGood(path, CLOCK)).toMatchObject({ counters: 3, live: 3 })
  })

  test('counts time from its own moment, not from that of the file', async () => {
    const { path, good } = await savedFile()
    // By its own clock it was full 90 ms after it was saved, which is long ago.
    const old = sectionBytes(BUCKET, recordsPayload({ level: 10, at: 400, size: 100, rate: 1 }), MOMENT)
    await writeFile(path, withSections(good, old))
    expect((await readGood(path, clockAt(0, MOMENT.wallMs + 89))).live).toBe(3)
    expect((await readGood(path, clockAt(0, MOMENT.wallMs + 91))).live).toBe(2)
  })

  test('of leases is of no kind that is saved, and is not read', async () => {
    const { path, good } = await savedFile()
    await writeFile(path, withSections(good, sectionBytes(LEASE_BLOCK, recordsPayload({}))))
    expect(await readGood(path, CLOCK)).toMatchObject({ counters: 2, live: 2 })
  })
})

test('a file without a section is a table without counters', async () => {
  const path = join(await newFolder(), 'state')
  await save(path, tableOf(32, [], 0), CLOCK)
  expect((await stat(path)).size).toBe(40 + 24 + 32)
  expect(await readGood(path, CLOCK)).toMatchObject({ counters: 0, live: 0 })
})

function withLength(section: Buffer, length: number): Buffer {
  const lying = Buffer.from(section)
  lying.writeUInt32LE(length, 4)
  return lying
}
