import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { smallDisk } from '../../../test/support/state/faulty-disk.ts'
import { expectWholeRecords } from '../../../test/support/state/saves-under-writes.ts'
import { sectionsOf } from '../../../test/support/state/sections.ts'
import {
  bucketRecord,
  clockAt,
  newFolder,
  newTable,
  recordsIn,
  resetRecord,
  save,
  stateFile,
  tableOf,
  windowRecord,
} from '../../../test/support/state/state.ts'
import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { LEASE_BLOCK, LEASE_NOTE, LEASE_USE, RESET, WAYS } from '../table/table-layout.ts'
import { StateFault } from './state-format.ts'

const WALL_MS = Date.UTC(2026, 0, 15)
const DAY_MS = 86_400_000
const CLOCK = clockAt(1000, WALL_MS)

describe('a save', () => {
  test('writes all counters that are not full, for its user alone, and leaves nothing else behind', async () => {
    const folder = await newFolder()
    const path = join(folder, 'state')
    const live = [bucketRecord(1, 50, 1000), bucketRecord(2, 99, 1000)]
    const saved = await stateFile(path, tableOf(64, [...live, bucketRecord(3, 100, 0)], 0), CLOCK).save()
    expect(saved).toEqual({ counters: 2, bytes: (await stat(path)).size })
    expect(new Set(await recordsIn(path))).toEqual(new Set(live))
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(folder)).toEqual(['state'])
  })

  test('writes each kind in sections of its own, and nothing that was leased', async () => {
    const path = join(await newFolder(), 'state')
    const live = [bucketRecord(1, 50, 1000), windowRecord(2, 5, WALL_MS + 1000), resetRecord(3, WALL_MS - 5, WALL_MS + DAY_MS)]
    const leased = [LEASE_BLOCK, LEASE_NOTE, LEASE_USE].map((kind, i) => ({ ...bucketRecord(10 + i, 5, 3000), kind }))
    const table = newTable(WAYS)
    for (const { kind, low, high, level, at, size, rate } of [...leased, ...live]) {
      table.write(table.claim(0, low, high, kind, 0, 0, 0), level, at, size, rate)
    }
    expect(await stateFile(path, table, CLOCK).save()).toMatchObject({ counters: 3 })
    expect(await recordsIn(path)).toEqual(live)
    expect(sectionsOf(await readFile(path)).map(({ type }) => type)).toEqual([BUCKET, WINDOW, RESET])
  })

  test('leaves out what a clock that was years ahead has left behind', async () => {
    const path = join(await newFolder(), 'state')
    const year = windowRecord(1, 5, WALL_MS + 366 * DAY_MS)
    const table = tableOf(64, [year, windowRecord(2, 5, WALL_MS + 3650 * DAY_MS), resetRecord(3, WALL_MS, WALL_MS + 3650 * DAY_MS)], 0)
    expect(await stateFile(path, table, CLOCK).save()).toMatchObject({ counters: 1 })
    expect(await recordsIn(path)).toEqual([year])
  })

  test('replaces the file from before, and what a killed process left half-written', async () => {
    const folder = await newFolder()
    const path = join(folder, 'state')
    await writeFile(`${path}.new`, 'half')
    await save(path, tableOf(32, [bucketRecord(1, 50, 0)], 0), CLOCK)
    await save(path, tableOf(32, [bucketRecord(2, 50, 0)], 0), CLOCK)
    expect(await recordsIn(path)).toEqual([bucketRecord(2, 50, 0)])
    expect(await readdir(folder)).toEqual(['state'])
  })

  test('does not write through a link that somebody put in its way', async () => {
    const folder = await newFolder()
    const precious = join(folder, 'precious')
    await writeFile(precious, 'precious')
    await symlink(precious, join(folder, 'state.new'))
    await save(join(folder, 'state'), newTable(32), CLOCK)
    expect(await readFile(precious, 'utf8')).toBe('precious')
  })

  test('asked for while one runs comes after it, once for all who asked, and has what was taken until then', async () => {
    const path = join(await newFolder(), 'state')
    const table = tableOf(32, [bucketRecord(1, 50, 0)], 0)
    const file = stateFile(path, table, CLOCK)
    const first = file.save()
    await setImmediate()
    table.write(0, 40, 0, 100, 1 / 1024)
    const [second, third] = [file.save(), file.save()]
    expect(second).toBe(third)
    expect(second).not.toBe(first)
    await Promise.all([first, second])
    expect(await recordsIn(path)).toMatchObject([{ level: 40 }])
  })

  test('after each other, by several who do not wait for one another, never meet', async () => {
    const path = join(await newFolder(), 'state')
    const file = stateFile(path, tableOf(32, [bucketRecord(1, 50, 0)], 0), CLOCK)
    const saver = async (): Promise<void> => {
      for (let i = 0; i < 10; i++) await file.save()
    }
    await Promise.all([saver(), saver(), saver()])
    expect(await recordsIn(path)).toHaveLength(1)
  })
})

describe('a save that fails', () => {
  test('says why in a sentence', async () => {
    const folder = await newFolder()
    const failing = save(join(folder, 'missing', 'state'), newTable(32), CLOCK)
    await expect(failing).rejects.toThrow(`cannot write ${folder}/missing/state: no such file or directory`)
    await expect(failing).rejects.toBeInstanceOf(StateFault)
    await expect(failing).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('does not stand in the way of the next', async () => {
    const folder = await newFolder()
    const path = join(folder, 'later', 'state')
    const file = stateFile(path, newTable(32), CLOCK)
    await expect(file.save()).rejects.toThrow()
    await mkdir(join(folder, 'later'))
    await file.save()
    expect(await recordsIn(path)).toEqual([])
  })

  test.skipIf(process.getuid?.() === 0)('in a folder that may not be written to says so', async () => {
    const folder = await newFolder()
    await chmod(folder, 0o500)
    await expect(save(join(folder, 'state'), newTable(32), CLOCK)).rejects.toThrow('permission denied')
  })

  test('on a disk that is full leaves the file from before', async (t) => {
    const folder = await newFolder()
    smallDisk(folder, t, 128)
    const path = join(folder, 'state')
    await save(path, tableOf(32, [bucketRecord(1, 50, 0)], 0), CLOCK)
    const records = Array.from({ length: 8_000 }, (_, i) => bucketRecord(i + 1, 50, 0))
    await expect(save(path, tableOf(32_000, records, 0), CLOCK)).rejects.toThrow(`cannot write ${path}: no space left on device`)
    expect(await recordsIn(path)).toEqual([bucketRecord(1, 50, 0)])
    expect(await readdir(folder)).toEqual(['state'])
  })
})

describe('a save while threads write', () => {
  test('never has half of a record', async () => {
    await expectWholeRecords(join(await newFolder(), 'state'), 2)
  })
})
