import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { smallDisk } from '../../../test/support/state/faulty-disk.ts'
import { expectWholeRecords } from '../../../test/support/state/saves-under-writes.ts'
import { bucketRecord, clockAt, HASH_KEY, newFolder, newTable, recordsIn, save, tableOf } from '../../../test/support/state/state.ts'
import { startThread } from '../../../test/support/threads/threads.ts'
import { MIN_TABLE_BYTES, newTableBuffer, SharedTable } from '../shared-table.ts'
import { StateFault } from './state-fault.ts'
import { StateFile } from './state-file.ts'

const CLOCK = clockAt(1000, Date.UTC(2026, 0, 15))

describe('a save', () => {
  test('writes all counters that are not full, for its user alone, and leaves nothing else behind', async () => {
    const folder = await newFolder()
    const path = join(folder, 'state')
    const live = [bucketRecord(1, 50, 1000), bucketRecord(2, 99, 1000)]
    const saved = await new StateFile(path, tableOf(64, [...live, bucketRecord(3, 100, 0)], 0), HASH_KEY, CLOCK).save()
    expect(saved).toEqual({ counters: 2, bytes: (await stat(path)).size })
    expect(new Set(await recordsIn(path))).toEqual(new Set(live))
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await readdir(folder)).toEqual(['state'])
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

  test('writes tables of many chunks whole', async () => {
    const path = join(await newFolder(), 'state')
    const records = Array.from({ length: 50_000 }, (_, i) => bucketRecord(i + 1, i % 90, 0))
    const table = tableOf(200_000, records, 0)
    expect(table.forcedEvictions).toBe(0)
    await save(path, table, CLOCK)
    const found = await recordsIn(path)
    expect(found.sort((a, b) => a.low - b.low)).toEqual(records)
  })

  test('lets others run meanwhile', async () => {
    const path = join(await newFolder(), 'state')
    let isSaving = true
    let turns = 0
    const saving = save(path, newTable(4_000_000), CLOCK).finally(() => {
      isSaving = false
    })
    for (; isSaving; turns++) await setImmediate()
    await saving
    expect(turns).toBeGreaterThan(3)
  })

  test('asked for while one runs comes after it, once for all who asked, and has what was taken until then', async () => {
    const path = join(await newFolder(), 'state')
    const table = tableOf(32, [bucketRecord(1, 50, 0)], 0)
    const file = new StateFile(path, table, HASH_KEY, CLOCK)
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
    const file = new StateFile(path, tableOf(32, [bucketRecord(1, 50, 0)], 0), HASH_KEY, CLOCK)
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
    const file = new StateFile(path, newTable(32), HASH_KEY, CLOCK)
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
    await expectWholeRecords(join(await newFolder(), 'state'), 20)
  })

  test('waits for no lock of a dead thread in a way that keeps it from being freed', async () => {
    const path = join(await newFolder(), 'state')
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = new SharedTable(buffer, 1)
    table.write(table.claim(0, 7, 7, 0, 0), 5, 0, 10, 0.001)
    const dying = startThread('dying-thread', { buffer, owner: 2, sets: [0], key: { low: 1, high: 1 }, dies: 'while it writes' })
    while (table.tryLock(0)) {
      table.unlock(0)
      await setImmediate()
    }
    const saving = save(path, table, CLOCK)
    if (dying.threadId !== -1) await once(dying, 'exit')
    table.freeLocksOf(2)
    await saving
    expect(await recordsIn(path)).toMatchObject([{ low: 7 }])
  })
})
