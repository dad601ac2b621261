import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { sectionsOf } from '../../../test/support/state/sections.ts'
import {
  bucketRecord,
  clockAt,
  newFolder,
  newTable,
  recordsIn,
  save,
  stateFile,
  tableOf,
  windowRecord,
} from '../../../test/support/state/state.ts'
import { startThread } from '../../../test/support/threads/threads.ts'
import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { SharedTable } from '../table/shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer, WAYS } from '../table/table-layout.ts'

const WALL_MS = Date.UTC(2026, 0, 15)
const CLOCK = clockAt(1000, WALL_MS)

describe('a save', () => {
  test('writes tables of many chunks whole', async () => {
    const path = join(await newFolder(), 'state')
    const records = Array.from({ length: 50_000 }, (_, i) =>
      i % 5 === 0 ? windowRecord(i + 1, 1 + (i % 90), WALL_MS + 1000) : bucketRecord(i + 1, i % 90, 0),
    )
    const table = tableOf(200_000, records, 0)
    expect(table.forcedEvictions).toBe(0)
    await save(path, table, CLOCK)
    const found = await recordsIn(path)
    expect(found.sort((a, b) => (a.low >>> 0) - (b.low >>> 0))).toEqual(records)
    const types = sectionsOf(await readFile(path)).map(({ type }) => type)
    expect([types.filter((type) => type === BUCKET).length, types.filter((type) => type === WINDOW).length]).toEqual([5, 5])
  })

  test('has room for all of a kind, though each set ends with another', async () => {
    const path = join(await newFolder(), 'state')
    const table = newTable(400 * WAYS)
    for (let set = 0; set < table.setCount; set++) {
      for (let way = 0; way < WAYS; way++) {
        const kind = way < WAYS - 1 ? BUCKET : WINDOW
        table.write(table.claim(set, (set + 1) << 16, way, kind, 0, 0, 0), 50, WALL_MS + 1000, 100, 0)
      }
    }
    expect(await stateFile(path, table, CLOCK).save()).toMatchObject({ counters: 400 * WAYS })
    expect((await recordsIn(path)).filter(({ kind }) => kind === WINDOW)).toHaveLength(400)
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
})

describe('a save while threads write', () => {
  test('waits for no lock of a dead thread in a way that keeps it from being freed', async () => {
    const path = join(await newFolder(), 'state')
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const table = new SharedTable(buffer, 1)
    table.write(table.claim(0, 0x7_0007, 7, BUCKET, 0, 0, 0), 5, 0, 10, 0.001)
    const dying = startThread('dying-thread', { buffer, owner: 2, sets: [0], key: { low: 1, high: 1 }, dies: 'while it writes' })
    while (table.tryLock(0)) {
      table.unlock(0)
      await setImmediate()
    }
    const saving = save(path, table, CLOCK)
    if (dying.threadId !== -1) await once(dying, 'exit')
    table.freeLocksOf(2)
    await saving
    expect(await recordsIn(path)).toMatchObject([{ low: 0x7_0007 }])
  })
})
