import { describe, expect, test } from 'vitest'
import { bucketLimit, takeRowsNow } from '../../test/support/charging.ts'
import { newGate, runThread } from '../../test/support/threads.ts'
import { EmbeddedStore } from './embedded-store.ts'
import { MIN_TABLE_BYTES, newTableBuffer, SharedTable } from './shared-table.ts'

const HASH_KEY = [0x5eed, -0x5eed] as const
/** All happens at one instant, at which nothing comes back. */
const NOW_MS = 1000

interface ThreadRow {
  readonly spec: ReturnType<typeof specOf>
  readonly values: readonly string[]
  readonly cost: number
}

type ThreadDecision = readonly ThreadRow[]

describe('two threads on one table', () => {
  test('admit exactly the burst between them', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES)
    const decision = [{ spec: specOf('key', 30_000), values: ['caller'], cost: 1 }]
    const [one, two] = await hammer(buffer, [[decision], [decision]], 20_000)
    expect(one! + two!).toBe(30_000)
    expect(spent(buffer, decision[0]!)).toBe(30_000)
    expect(occupied(buffer)).toBe(1)
  })

  test('that take the same counters in opposite order do not lock each other out, and take from all or none', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const rows = Array.from({ length: 6 }, (_, i) => ({ spec: specOf(`rule${i}`, 10_000 + i), values: ['caller'], cost: 1 }))
    const [one, two] = await hammer(buffer, [[rows], [rows.toReversed()]], 8_000)
    expect(one! + two!).toBe(10_000)
    for (const row of rows) expect(spent(buffer, row)).toBe(10_000)
  })

  test('that share one counter of two spend from their own exactly what they got of it', async () => {
    const buffer = newTableBuffer(64 * 1024)
    const shared = { spec: specOf('shared', 10_000), values: [], cost: 1 }
    const own = ['a', 'b'].map((caller) => ({ spec: specOf('own', 1_000_000), values: [caller], cost: 1 }))
    const [one, two] = await hammer(
      buffer,
      own.map((row) => [[shared, row]]),
      8_000,
    )
    expect(one! + two!).toBe(10_000)
    expect(own.map((row) => spent(buffer, row))).toEqual([one, two])
  })

  test('that flood it with keys of their own keep it within its slots, and count every eviction', async () => {
    const buffer = newTableBuffer(MIN_TABLE_BYTES * 2)
    const flood = (thread: string): ThreadDecision[] =>
      Array.from({ length: 5_000 }, (_, i) => [{ spec: specOf('rule', 100), values: [`${thread}${i}`], cost: 1 + (i % 50) }])
    expect(await hammer(buffer, [flood('a'), flood('b')], 1)).toEqual([5_000, 5_000])
    const { slots, occupiedSlots, forcedEvictions } = storeOn(buffer).stats()
    expect(occupiedSlots).toBe(slots)
    expect(forcedEvictions).toBe(10_000 - slots)
  })
})

test('a store without the key of the other finds none of its counters', () => {
  const buffer = newTableBuffer(64 * 1024)
  const row = { spec: specOf('key', 10), values: ['caller'], cost: 4 }
  const other = new EmbeddedStore(new SharedTable(buffer, 2), [1, 2])
  take(storeOn(buffer), row)
  expect(take(other, { ...row, cost: 0 })).toBe(10)
  expect(take(storeOn(buffer), { ...row, cost: 0 })).toBe(6)
})

async function hammer(buffer: SharedArrayBuffer, decisions: readonly (readonly ThreadDecision[])[], times: number): Promise<number[]> {
  const gate = newGate(decisions.length)
  const threads = decisions.map((list, i) =>
    runThread('taking-thread', { buffer, owner: 2 + i, hashKey: HASH_KEY, gate, decisions: list, times }),
  )
  return (await Promise.all(threads)) as number[]
}

function specOf(name: string, burst: number) {
  return { identity: ['policy', name], limit: bucketLimit(1, burst), sinceMs: 0 }
}

function storeOn(buffer: SharedArrayBuffer): EmbeddedStore {
  return new EmbeddedStore(new SharedTable(buffer, 1), HASH_KEY)
}

function take(store: EmbeddedStore, { spec, values, cost }: ThreadRow): number {
  return takeRowsNow(store, [{ counter: store.open(spec), values, cost }], NOW_MS).levels[0]!
}

function spent(buffer: SharedArrayBuffer, row: ThreadRow): number {
  const { limit } = row.spec
  return (limit.kind === 'bucket' ? limit.burst : 0) - take(storeOn(buffer), { ...row, cost: 0 })
}

function occupied(buffer: SharedArrayBuffer): number {
  return storeOn(buffer).stats().occupiedSlots
}
