import { mkdir, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  bucketRecord,
  clockAt,
  HASH_KEY,
  newFolder,
  newTable,
  readGood,
  save,
  tableOf,
  windowRecord,
} from '../../../test/support/state/state.ts'
import { sealed } from '../../../test/support/state/version-1.ts'
import { SharedTable } from '../table/shared-table.ts'
import { newTableBuffer } from '../table/table-layout.ts'
import { restore } from '../table/table-records.ts'
import { NONSENSE } from './state-format.ts'
import { readState, restoreInto, StateTooLarge, setAside } from './state-read.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const CLOCK = clockAt(1000, NOON_MS)

describe('reading', () => {
  test('finds nothing where no file is', async () => {
    expect(await readState(join(await newFolder(), 'state'), CLOCK)).toEqual({ kind: 'none' })
  })

  test('tells the hash key, and how many counters there are and how many of them still count', async () => {
    const path = join(await newFolder(), 'state')
    await save(path, tableOf(64, [bucketRecord(1, 0, 1000), bucketRecord(2, 0, 1000, 10, 1)], 1000), CLOCK)
    const state = await readGood(path, clockAt(5, NOON_MS + 60_000))
    expect(state).toMatchObject({ counters: 2, live: 1, header: { hashKey: HASH_KEY } })
  })

  test.each<[string, string, (bytes: Buffer) => Buffer]>([
    ['an empty file', 'it is not a state file', () => Buffer.alloc(0)],
    ['somebody else’s file', 'it is not a state file', () => Buffer.from('{"policies": []}')],
    ['a file of the next version', 'its format is version 3, and this program knows versions 1 to 2', (bytes) => resealed(bytes, 8, 3)],
    ['half a file', 'it is truncated', (bytes) => bytes.subarray(0, bytes.length / 2)],
    ['a file without its last record', 'it is truncated', (bytes) => bytes.subarray(0, -32)],
    ['a header alone', 'it is truncated', (bytes) => bytes.subarray(0, 40)],
    ['a changed byte', 'its checksum is wrong: it was truncated or changed', (bytes) => withByte(bytes, 80)],
    ['a type that was changed', 'its checksum is wrong: it was truncated or changed', (bytes) => withByte(bytes, 42)],
    ['a file with something behind it', 'it has data after its end', (bytes) => Buffer.concat([bytes, Buffer.from('!')])],
    ['two files in one', 'it has data after its end', (bytes) => Buffer.concat([bytes, bytes])],
    ['a counter that is none, under a good checksum', NONSENSE, (bytes) => resealed(bytes, 40 + 24 + 24, 0)],
    ['no end, under a good checksum', 'it is truncated', (bytes) => sealed(bytes.subarray(0, -56))],
    ['an end with a payload, under a good checksum', 'it is truncated', (bytes) => resealed(bytes, bytes.length - 52, 1)],
    [
      'an end with a payload behind it, under a good checksum',
      NONSENSE,
      (bytes) => Buffer.concat([resealed(bytes, bytes.length - 52, 32), Buffer.alloc(32)]),
    ],
    ['an end without a time, under a good checksum', NONSENSE, (bytes) => resealed(bytes, bytes.length - 36, 0x7ff8_0000)],
  ])('refuses %s', async (_, reason, change) => {
    const path = join(await newFolder(), 'state')
    await save(path, tableOf(64, [bucketRecord(1, 50, 0), bucketRecord(2, 50, 0)], 0), CLOCK)
    await writeFile(path, change(await readFile(path)))
    expect(await readState(path, CLOCK)).toEqual({ kind: 'damaged', reason })
  })

  test('is a fault, not damage, where the file is no file', async () => {
    const path = join(await newFolder(), 'state')
    await mkdir(path)
    await expect(readState(path, CLOCK)).rejects.toThrow(`cannot read ${path}: it is not a regular file`)
    await expect(readState(join(path, 'x\0y'), CLOCK)).rejects.toThrow('cannot read')
  })
})

describe('restoring', () => {
  test('gives the counters back', async () => {
    const path = join(await newFolder(), 'state')
    await save(path, tableOf(64, [bucketRecord(1, 50, 0), windowRecord(2, 900, NOON_MS + 3_600_000)], 0), CLOCK)
    const table = newTable(64)
    const later = clockAt(20, NOON_MS)
    expect(await restoreInto(table, await readGood(path, later), later)).toEqual({ counters: 2, evicted: 0 })
    expect(table.occupiedSlots).toBe(2)
  })

  test('into a table with fewer slots changes nothing and says what would do', async () => {
    const path = join(await newFolder(), 'state')
    const records = Array.from({ length: 100 }, (_, i) => bucketRecord(i + 1, 50, 0))
    await save(path, tableOf(1024, records, 0), CLOCK)
    const before = await readFile(path)
    const table = newTable(96)
    const error = await restoreInto(table, await readGood(path, CLOCK), CLOCK).catch((thrown: StateTooLarge) => thrown)
    expect(error).toBeInstanceOf(StateTooLarge)
    const { enoughBytes, message } = error as StateTooLarge
    expect(message).toBe(`${path} has 100 live counters, and there is no room for 4 of them`)
    expect(table.occupiedSlots).toBe(0)
    expect((await readFile(path)).equals(before)).toBe(true)
    const enough = new SharedTable(newTableBuffer(enoughBytes), 1)
    expect(await restoreInto(enough, await readGood(path, CLOCK), CLOCK)).toEqual({ counters: 100, evicted: 0 })
  })

  test('into a set that overflows leaves out those that have spent least, and counts them', async () => {
    const path = join(await newFolder(), 'state')
    const records = Array.from({ length: 32 }, (_, i) => ({ ...bucketRecord(i + 1, 10 + i, 0), high: i < 16 ? 1 : -1 }))
    const more = Array.from({ length: 8 }, (_, i) => ({ ...bucketRecord(i + 101, 50 + i, 0), high: i < 4 ? 1 : -1 }))
    await save(path, tableOf(64, [...records, ...more], 0), CLOCK)
    // Of two sets the first already has 20 that have spent all, and 20 more want in.
    const table = newTable(64)
    for (let i = 0; i < 20; i++) restore(table, { ...bucketRecord(1000 + i, 0, 0), high: 1 }, 0, 0)
    const state = await readGood(path, CLOCK)
    expect(await restoreInto(table, state, CLOCK)).toEqual({ counters: 32, evicted: 8 })
    const missing = [...records, ...more].filter(({ low, high }) => table.find(table.setOf(high), low, high) < 0)
    expect(missing.map(({ level }) => level)).toEqual([22, 23, 24, 25, 50, 51, 52, 53])
  })

  test('tells when the file has changed since it was read', async () => {
    const path = join(await newFolder(), 'state')
    await save(path, tableOf(64, [bucketRecord(1, 50, 0), bucketRecord(2, 50, 0)], 0), CLOCK)
    const state = await readGood(path, CLOCK)
    await truncate(path, 100)
    await expect(restoreInto(newTable(64), state, CLOCK)).rejects.toThrow(`cannot read ${path} again: it is truncated`)
  })
})

test('a file that is set aside gets a name that tells when, and never one that is taken', async () => {
  const folder = await newFolder()
  const path = join(folder, 'state')
  const names: string[] = []
  for (const text of ['one', 'two', 'three']) {
    await writeFile(path, text)
    names.push(await setAside(path, NOON_MS + 123))
  }
  expect(names).toEqual(['', '-2', '-3'].map((suffix) => `${path}.damaged-20260115T120000Z${suffix}`))
  expect(await Promise.all(names.map((name) => readFile(name, 'utf8')))).toEqual(['one', 'two', 'three'])
  expect(await readdir(folder)).toHaveLength(3)
  await expect(setAside(path, NOON_MS)).rejects.toThrow(`cannot set ${path} aside: no such file or directory`)
})

/** With another 32-bit word somewhere, and a checksum to fit. */
function resealed(bytes: Buffer, offset: number, word: number): Buffer {
  const body = Buffer.from(bytes.subarray(0, -32))
  body.writeUInt32LE(word, offset)
  return sealed(body)
}

function withByte(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes)
  changed[at]! ^= 1
  return changed
}
