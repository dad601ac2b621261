import { describe, expect, test } from 'vitest'
import { bucketRecord, HASH_KEY } from '../../../test/support/state/state.ts'
import { version1Complaint } from '../../../test/support/state/version-1.ts'
import { RecordBatch } from '../table/table-records.ts'
import {
  decodeHeader,
  decodeRecord,
  decodeSectionHeader,
  encodeHeader,
  encodeRecord,
  encodeSectionHeader,
  HEADER_BYTES,
  RECORD_BYTES,
  SECTION_HEADER_BYTES,
} from './state-format.ts'

/** Saved at noon, when the process had run for 10 s. */
const SAVED = { version: 2, hashKey: HASH_KEY, wallMs: Date.UTC(2026, 0, 15, 12), nowMs: 10_000 }

describe('a header', () => {
  test('is read as it was written', () => {
    expect(decodeHeader(written())).toEqual(SAVED)
  })

  test.each([
    [
      'of the next version',
      (view: DataView) => view.setUint32(8, 3, true),
      'its format is version 3, and this program knows versions 1 to 2',
    ],
    ['of version 0', (view: DataView) => view.setUint32(8, 0, true), 'its format is version 0, and this program knows versions 1 to 2'],
    ['of another program', (view: DataView) => view.setUint8(0, 0x50), 'it is not a state file'],
    ['without a time', (view: DataView) => view.setFloat64(24, Number.NaN, true), 'it contains impossible values'],
    ['with an endless time', (view: DataView) => view.setFloat64(32, Number.POSITIVE_INFINITY, true), 'it contains impossible values'],
  ])('%s is not taken', (_, change, reason) => {
    const view = written()
    change(view)
    expect(decodeHeader(view)).toBe(reason)
  })

  test('of version 1 is taken', () => {
    const view = written()
    view.setUint32(8, 1, true)
    expect(decodeHeader(view)).toEqual({ ...SAVED, version: 1 })
  })

  test('that is cut off is not taken', () => {
    expect(decodeHeader(new DataView(written().buffer, 0, HEADER_BYTES - 1))).toBe('it is truncated')
    expect(decodeHeader(new DataView(new ArrayBuffer(0)))).toBe('it is not a state file')
  })

  test('tells edge 0.1 that the file is of another version', () => {
    const bytes = Buffer.from(written().buffer)
    expect(version1Complaint(bytes)).toBe('its format is version 2, and this program knows version 1')
  })

  function written(): DataView {
    const view = new DataView(new ArrayBuffer(HEADER_BYTES))
    encodeHeader(view, SAVED)
    return view
  }
})

test('the header of a section is read as it was written, and no length is below zero', () => {
  const view = new DataView(new ArrayBuffer(SECTION_HEADER_BYTES))
  const section = { type: 131, bytes: 2 ** 32 - 32, wallMs: 1e12 + 0.5, nowMs: 0.125 }
  encodeSectionHeader(view, section)
  expect(decodeSectionHeader(view)).toEqual(section)
})

describe('a record', () => {
  test('is read as it was written', () => {
    const record = bucketRecord(7, -12.25, 1234.5)
    const view = written()
    const read = bucketRecord(0, 0, 0)
    expect(decodeRecord(view, 0, read)).toBe(true)
    expect(read).toEqual(record)
  })

  test.each<[string, (view: DataView) => void]>([
    ['level that is no number', (view) => view.setFloat64(8, Number.NaN, true)],
    ['level without end', (view) => view.setFloat64(8, Number.NEGATIVE_INFINITY, true)],
    ['time that is no number', (view) => view.setFloat64(16, Number.NaN, true)],
    ['time without end', (view) => view.setFloat64(16, Number.POSITIVE_INFINITY, true)],
    ['size of nothing', (view) => view.setFloat32(24, 0, true)],
    ['size below zero', (view) => view.setFloat32(24, -1, true)],
    ['size that is no number', (view) => view.setFloat32(24, Number.NaN, true)],
    ['size without end', (view) => view.setFloat32(24, Number.POSITIVE_INFINITY, true)],
    ['rate below zero', (view) => view.setFloat32(28, -1, true)],
    ['rate that is no number', (view) => view.setFloat32(28, Number.NaN, true)],
    ['rate without end', (view) => view.setFloat32(28, Number.POSITIVE_INFINITY, true)],
  ])('cannot have a %s', (_, change) => {
    const view = written()
    change(view)
    expect(decodeRecord(view, 0, bucketRecord(0, 0, 0))).toBe(false)
  })

  function written(): DataView {
    const { low, high, level, at, size, rate } = bucketRecord(7, -12.25, 1234.5)
    const batch = new RecordBatch()
    batch.lows[3] = low
    batch.highs[3] = high
    batch.levels[3] = level
    batch.ats[3] = at
    batch.sizes[3] = size
    batch.rates[3] = rate
    const view = new DataView(new ArrayBuffer(RECORD_BYTES))
    encodeRecord(view, 0, batch, 3)
    return view
  }
})
