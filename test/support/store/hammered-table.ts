import { EmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../../src/store/table/shared-table.ts'
import { runs } from '../run/property-runs.ts'
import { newGate, runThread } from '../threads/threads.ts'
import { bucketLimit, takeRowsNow } from './charging.ts'

export const HASH_KEY = [0x5eed, -0x5eed] as const

/** All happens at one instant, at which nothing comes back. */
export const NOW_MS = 1000

interface ThreadRow {
  readonly spec: ReturnType<typeof specOf>
  readonly values: readonly string[]
  readonly cost: number
}

export type ThreadDecision = readonly ThreadRow[]

/** How often threads meet: more often in `npm run test:full`. */
export const SCALE = runs(1)

export async function hammer(
  buffer: SharedArrayBuffer,
  decisions: readonly (readonly ThreadDecision[])[],
  times: number,
): Promise<number[]> {
  const gate = newGate(decisions.length)
  const threads = decisions.map((list, i) =>
    runThread('taking-thread', { buffer, owner: 2 + i, hashKey: HASH_KEY, gate, decisions: list, times }),
  )
  return (await Promise.all(threads)) as number[]
}

export function specOf(name: string, burst: number) {
  return { identity: ['policy', name], limit: bucketLimit(1, burst), sinceMs: 0 }
}

export function storeOn(buffer: SharedArrayBuffer): EmbeddedStore {
  return new EmbeddedStore(new SharedTable(buffer, 1), HASH_KEY)
}

export function take(store: EmbeddedStore, { spec, values, cost }: ThreadRow): number {
  return takeRowsNow(store, [{ counter: store.open(spec), values, cost }], NOW_MS).levels[0]!
}

export function spent(buffer: SharedArrayBuffer, row: ThreadRow): number {
  const { limit } = row.spec
  return limit.burst - take(storeOn(buffer), { ...row, cost: 0 })
}
