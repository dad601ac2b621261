import { writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { CLOCK, complaintAbout, MOMENT, NOON_MS, savedFile } from '../../../test/support/state/scanned-file.ts'
import { recordsPayload, sectionBytes, withSections } from '../../../test/support/state/sections.ts'
import { readGood, recordsIn } from '../../../test/support/state/state.ts'
import { WINDOW } from '../../limiter/limit.ts'
import { MAX_UNKNOWN_BYTES, UnknownSections } from './state-read.ts'

describe('sections that this program does not know', () => {
  test('are kept up to a bound that all of them share, chunks and all; a file that has more is set aside', async () => {
    const { path, good } = await savedFile()
    const half = MAX_UNKNOWN_BYTES / 2
    const first = sectionBytes(300, Buffer.alloc(half - 24, 7))
    await writeFile(path, withSections(good, first, sectionBytes(301, Buffer.alloc(half - 24, 8))))
    const { unknownSections } = await readGood(path, CLOCK)
    expect([unknownSections.length, unknownSections.at(-1), unknownSections[half - 1]]).toEqual([MAX_UNKNOWN_BYTES, 8, 7])

    await writeFile(path, withSections(good, first, sectionBytes(301, Buffer.alloc(half - 23, 8))))
    const reason = `a newer version of edge saved ${MAX_UNKNOWN_BYTES + 1} bytes in it that this version cannot read, and it can keep at most ${MAX_UNKNOWN_BYTES}`
    expect(await complaintAbout(path)).toBe(reason)
  })

  test('take no more memory than the bound, however many they are', () => {
    const sections = new UnknownSections()
    const header = Buffer.alloc(24, 1)
    for (let i = 0; i < 1_000_000; i++) sections.add(header)
    expect([sections.fits, sections.totalBytes]).toEqual([false, 24_000_000])
    expect(sections.bytes.buffer.byteLength).toBeLessThanOrEqual(MAX_UNKNOWN_BYTES)
  })
})

describe('a section of records, under a good checksum,', () => {
  test('may be longer than what is read at once', async () => {
    const { path, good } = await savedFile()
    const records = Array.from({ length: 20_000 }, (_, i) => ({ level: i + 1, at: NOON_MS + 1000, size: 1e6 }))
    await writeFile(path, withSections(good, sectionBytes(WINDOW, recordsPayload(...records), MOMENT)))
    const found = await recordsIn(path)
    expect(found.slice(2).map(({ level }) => level)).toEqual(records.map(({ level }) => level))
    expect(await readGood(path, CLOCK)).toMatchObject({ counters: 20_002, live: 20_002 })
  })
})
