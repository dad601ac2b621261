import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { MIN_TABLE_BYTES } from '../../../src/store/table/table-layout.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { BURST, KeptCounters, take } from '../../support/state/kept-counters.ts'

/** One set of 32 slots. */
const SMALLEST = { EDGE_STORE_SIZE: String(MIN_TABLE_BYTES) }
const CALLERS = Array.from({ length: 40 }, (_, i) => `caller-${i}`)

describe.concurrent('a table that is too small', () => {
  test('for what was saved is refused, and the file stays as it is', async (t) => {
    const kept = await KeptCounters.of(t)
    const first = await kept.run()
    expect(await takeFromAll(first)).toEqual(CALLERS.map(() => BURST - 1))
    await first.stop()

    const bytes = await readFile(kept.statePath)
    await expect(kept.run(SMALLEST)).rejects.toThrow('has 40 live counters, and there is no room for 8 of them')
    expect((await readFile(kept.statePath)).equals(bytes)).toBe(true)

    const second = await kept.run()
    expect(second.logged('state_evicted')).toEqual([])
    expect(await takeFromAll(second)).toEqual(CALLERS.map(() => BURST - 2))
  })

  test('for those who call is told of in the log and in a metric, at the latest in the end', async (t) => {
    const kept = await KeptCounters.of(t)
    const cli = await kept.run(SMALLEST)
    await takeFromAll(cli)
    const evicted = CALLERS.length - 32
    expect(await metric(cli.port, 'edge_store_forced_evictions_total')).toBe(evicted)
    await cli.stop()
    const told = cli.logged('counters_evicted')
    expect(told[0]).toMatchObject({ level: 40, slots: 32, occupied_slots: 32 })
    expect(told.reduce((sum, entry) => sum + Number(entry['evicted']), 0)).toBe(evicted)
  })
})

async function takeFromAll(edge: Edge): Promise<number[]> {
  const left: number[] = []
  for (const caller of CALLERS) left.push(await take(edge, 1, caller))
  return left
}
