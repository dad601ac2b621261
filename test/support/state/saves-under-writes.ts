import { expect } from 'vitest'
import { SharedTable } from '../../../src/store/table/shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from '../../../src/store/table/table-layout.ts'
import { runThread } from '../threads/threads.ts'
import { until } from '../until.ts'
import { clockAt, recordsIn, save } from './state.ts'

/** Saves so many times while two threads write records whose numbers follow from one another: none may come apart. */
export async function expectWholeRecords(path: string, saves: number): Promise<void> {
  const buffer = newTableBuffer(MIN_TABLE_BYTES + 4096)
  const stop = new Int32Array(new SharedArrayBuffer(4))
  // More keys than slots, so that they take each other's places all the time
  const threads = [2, 3].map((owner) => runThread('writing-thread', { buffer, owner, keys: 400, stop }))
  const table = new SharedTable(buffer, 1)
  await until(() => table.occupiedSlots === table.slotCount)
  let seen = 0
  for (let i = 0; i < saves; i++) {
    await save(path, table, clockAt(0, 0))
    const records = await recordsIn(path)
    const halves = records.filter(({ low, level, at, size }) => at !== -level * 3 || size !== Math.fround((low % 1000) - level + 1))
    expect(halves).toEqual([])
    seen += records.length
  }
  Atomics.store(stop, 0, 1)
  const writes = (await Promise.all(threads)) as number[]
  expect(writes[0]! + writes[1]!).toBeGreaterThan(table.slotCount)
  expect(seen).toBeGreaterThan(10 * saves)
}
