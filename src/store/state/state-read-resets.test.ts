import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { clockAt, HASH_KEY, newFolder, newTable, readGood, save } from '../../../test/support/state/state.ts'
import { bucketLimit, dayLimit, type Row, resetRows, settleRows, takeRowsNow } from '../../../test/support/store/charging.ts'
import { until } from '../../../test/support/until.ts'
import { EmbeddedStore } from '../table/embedded-store.ts'
import type { SharedTable } from '../table/shared-table.ts'
import { restoreInto } from './state-read.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const DAY_MS = 86_400_000
const CLOCK = clockAt(1000, NOON_MS)
const SIZE = 1000
const LIMITS = { bucket: bucketLimit(2 ** -40, SIZE), window: dayLimit(SIZE) }
type Kind = keyof typeof LIMITS

describe.each<Kind>(['bucket', 'window'])('the reset of a %s', (kind) => {
  test('is saved and loaded with its counter: what was taken before it stays forgotten', async () => {
    const path = join(await newFolder(), 'state')
    const table = newTable(64)
    const takenAtMs = NOON_MS - 1000
    takeFrom(table, 700, 0, takenAtMs)
    await resetRows(storeOn(table), [rowOf(table, 'alice', 0)], 0, NOON_MS)
    takeFrom(table, 30, 1000, NOON_MS + 1)
    await save(path, table, CLOCK)

    const loaded = await loadedFrom(path)
    expect(leftOf(loaded, 'alice', NOON_MS + 1)).toBeCloseTo(SIZE - 30)
    // What comes back late of a take from before the reset is none of the new counter's.
    await settleRows(storeOn(loaded), [rowOf(loaded, 'alice', 30)], 1000, NOON_MS + 1, takenAtMs)
    expect(leftOf(loaded, 'alice', NOON_MS + 1)).toBeCloseTo(SIZE - 30)
    // Without the reset it would be.
    await settleRows(storeOn(loaded), [rowOf(loaded, 'alice', 30)], 1000, NOON_MS + 1, NOON_MS + 1)
    expect(leftOf(loaded, 'alice', NOON_MS + 1)).toBeCloseTo(SIZE)
  })

  test('is forgotten with the file when its time is over', async () => {
    const path = join(await newFolder(), 'state')
    const table = newTable(64)
    await resetRows(storeOn(table), [rowOf(table, 'alice', 0)], 0, NOON_MS)
    await save(path, table, CLOCK)
    expect((await readGood(path, clockAt(0, NOON_MS + DAY_MS - 1))).live).toBe(1)
    expect((await readGood(path, clockAt(0, NOON_MS + DAY_MS))).live).toBe(0)
  })

  test('in the middle of a save: each counter is in the file as before its reset or as after it, never both', async () => {
    const path = join(await newFolder(), 'state')
    const table = newTable(640)
    const names = Array.from({ length: 100 }, (_, i) => `caller-${i}`)
    for (const name of names) takeRowsNow(storeOn(table), [rowOf(table, name, 700)], 0, NOON_MS)
    // The save is held up in the middle of the table while all counters are reset.
    const middle = table.setCount >> 1
    let isHeld = true
    const tryLock = table.tryLock.bind(table)
    const spy = vi.spyOn(table, 'tryLock').mockImplementation((set) => (set === middle && isHeld ? false : tryLock(set)))
    const saving = save(path, table, CLOCK)
    await until(() => spy.mock.calls.some(([set]) => set === middle))
    for (const name of names) {
      await resetRows(storeOn(table), [rowOf(table, name, 0)], 0, NOON_MS + 1)
      takeRowsNow(storeOn(table), [rowOf(table, name, 30)], 0, NOON_MS + 1)
    }
    isHeld = false
    await saving

    const loaded = await loadedFrom(path)
    const left = names.map((name) => Math.round(leftOf(loaded, name, NOON_MS + 1)))
    expect([...new Set(left)].sort()).toEqual([SIZE - 700, SIZE - 30])
    const late = names.map((name) => rowOf(loaded, name, 10))
    await settleRows(storeOn(loaded), late, 1000, NOON_MS + 1, NOON_MS)
    // The settlement of a take from before the reset reaches those counters alone that the file has as they were then.
    expect(names.map((name) => Math.round(leftOf(loaded, name, NOON_MS + 1)))).toEqual(
      left.map((before) => (before === SIZE - 700 ? before + 10 : before)),
    )
  })

  function takeFrom(table: SharedTable, cost: number, nowMs: number, wallMs: number): void {
    expect(takeRowsNow(storeOn(table), [rowOf(table, 'alice', cost)], nowMs, wallMs).taken).toBe(true)
  }

  function leftOf(table: SharedTable, name: string, wallMs: number): number {
    return takeRowsNow(storeOn(table), [rowOf(table, name, 0)], 1000, wallMs).levels[0]!
  }

  function rowOf(table: SharedTable, name: string, cost: number): Row {
    return { counter: storeOn(table).open({ identity: [kind], limit: LIMITS[kind], sinceMs: 0 }), values: [name], cost }
  }
})

function storeOn(table: SharedTable): EmbeddedStore {
  return new EmbeddedStore(table, HASH_KEY)
}

async function loadedFrom(path: string): Promise<SharedTable> {
  const table = newTable(640)
  await restoreInto(table, await readGood(path, CLOCK), CLOCK)
  return table
}
