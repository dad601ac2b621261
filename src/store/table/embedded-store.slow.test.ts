import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import {
  HASH_KEY,
  hammer,
  NOW_MS,
  SCALE,
  specOf,
  spent,
  storeOn,
  type ThreadDecision,
  take,
} from '../../../test/support/store/hammered-table.ts'
import { newGate, runThread } from '../../../test/support/threads/threads.ts'
import { ChargeResults, Charges } from '../charges.ts'
import { MIN_TABLE_BYTES, newTableBuffer } from './table-layout.ts'

describe('two threads on one table', () => {
  test('that take the same counters in opposite order do not lock each other out, and take from all or none', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const rows = Array.from({ length: 6 }, (_, i) => ({ spec: specOf(`rule${i}`, 1000 * SCALE + i), values: ['caller'], cost: 1 }))
    const [one, two] = await hammer(buffer, [[rows], [rows.toReversed()]], 800 * SCALE)
    expect(one! + two!).toBe(1000 * SCALE)
    for (const row of rows) expect(spent(buffer, row)).toBe(1000 * SCALE)
  })

  test('that share one counter of two spend from their own exactly what they got of it', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const shared = { spec: specOf('shared', 1000 * SCALE), values: [], cost: 1 }
    const own = ['a', 'b'].map((caller) => ({ spec: specOf('own', 1_000_000), values: [caller], cost: 1 }))
    const [one, two] = await hammer(
      buffer,
      own.map((row) => [[shared, row]]),
      800 * SCALE,
    )
    expect(one! + two!).toBe(1000 * SCALE)
    expect(own.map((row) => spent(buffer, row))).toEqual([one, two])
  })

  test('that flood it with keys of their own keep it within its slots, and count every eviction', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES * 2)
    const flood = (thread: string): ThreadDecision[] =>
      Array.from({ length: 1000 * SCALE }, (_, i) => [{ spec: specOf('rule', 100), values: [`${thread}${i}`], cost: 1 + (i % 50) }])
    expect(await hammer(buffer, [flood('a'), flood('b')], 1)).toEqual([1000 * SCALE, 1000 * SCALE])
    const { slots, occupiedSlots, forcedEvictions } = storeOn(buffer).stats()
    expect(occupiedSlots).toBe(slots)
    expect(forcedEvictions).toBe(2000 * SCALE - slots)
  })
})

describe('a settlement in a table', () => {
  test('loses nothing to a thread that takes from the same counter meanwhile', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    // Whichever of the two is the faster one: all that one takes is there, and so is room for all that the other gives back.
    const times = 5000 * SCALE
    const row = { spec: specOf('key', 2 * times), values: ['caller'], cost: 1 }
    const store = storeOn(buffer)
    take(store, { ...row, cost: times })
    const [charges, results] = [new Charges(), new ChargeResults()]
    charges.addValue('caller')
    charges.add(store.open(row.spec), 1)
    const gate = newGate(2)
    const taking = runThread('taking-thread', { buffer, owner: 2, hashKey: HASH_KEY, gate, decisions: [[row]], times })
    while (Atomics.load(gate.words, 0) === 0) await setTimeout(1)
    Atomics.add(gate.words, 0, 1)
    Atomics.notify(gate.words, 0)
    for (let i = 0; i < times; i++) {
      store.checkAll(charges, results, NOW_MS, 0)
      store.settleAll(charges, { wallMs: 0, momentMs: 0, from: 'local' }, NOW_MS, 0)
    }
    expect(await taking).toBe(times)
    expect(spent(buffer, row)).toBe(times)
  })
})
