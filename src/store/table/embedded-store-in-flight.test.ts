import { expect, test } from 'vitest'
import { checkRows, inFlightLimit, renewRows, takeRows } from '../../../test/support/store/charging.ts'
import { EmbeddedStore } from './embedded-store.ts'
import { SharedTable } from './shared-table.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from './table-layout.ts'

const NOON_MS = Date.UTC(2026, 0, 15, 12)
const SLICE_MS = 1000

test('a counter in use takes eight slots, however long it is used', async () => {
  const { store, take } = newCounter(1000)
  for (let slice = 0; slice < 50; slice++) await take(NOON_MS + slice * SLICE_MS)
  expect(store.stats()).toMatchObject({ occupiedSlots: 8, forcedEvictions: 0 })
})

test('several counters in one set do not take each other for their own', async () => {
  const { store, counter } = newCounter(10)
  const row = (value: string, cost: number) => ({ counter, values: [value], cost })
  for (let slice = 0; slice < 8; slice++) {
    for (const value of ['a', 'b', 'c', 'd']) await takeRows(store, [row(value, 1)], 0, NOON_MS + slice * SLICE_MS)
  }
  const looks = ['a', 'b', 'c', 'd', 'e'].map((value) => row(value, 0))
  expect((await takeRows(store, looks, 0, NOON_MS + 7 * SLICE_MS)).levels).toEqual([2, 2, 2, 2, 10])
  expect(store.stats()).toMatchObject({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
})

test('where the clock is set back, holds from the time ahead of it count when they are renewed, and they are counted once', async () => {
  const { take, left, renew } = newCounter(3)
  await take(NOON_MS)
  const backMs = NOON_MS - 3_600_000
  expect(await left(backMs)).toBe(3)
  const renewed = await renew(NOON_MS, backMs)
  expect([renewed.wallMs, await left(backMs)]).toEqual([backMs, 2])
  expect(await left(NOON_MS)).toBe(3)
  expect(await left(backMs + 8 * SLICE_MS)).toBe(3)
})

test('a clock that jumps ahead lets holds end, and a renewal counts them again', async () => {
  const { take, left, renew } = newCounter(3)
  await take(NOON_MS)
  const aheadMs = NOON_MS + 3_600_000
  expect(await left(aheadMs)).toBe(3)
  await renew(NOON_MS, aheadMs)
  expect(await left(aheadMs)).toBe(2)
})

function newCounter(max: number) {
  const store = new EmbeddedStore(new SharedTable(newTableBuffer(MIN_TABLE_BYTES), 1), [1, 2])
  const counter = store.open({ identity: ['rule'], limit: inFlightLimit(max, SLICE_MS), sinceMs: 0 })
  const rows = [{ counter, cost: 1 }]
  return {
    store,
    counter,
    take: (wallMs: number) => takeRows(store, rows, 0, wallMs),
    renew: (takenMs: number, wallMs: number) => renewRows(store, rows, { wallMs: takenMs, momentMs: takenMs, from: 'local' }, 0, wallMs),
    left: async (wallMs: number) => (await checkRows(store, [{ counter, cost: 0 }], 0, wallMs)).levels[0]!,
  }
}
