import { expect, test } from 'vitest'
import { EarlierRuns, encodeBlock, newEarlierBuffer } from './reservation-numbers.ts'

const HOUR_MS = 3_600_000
const NOON_MS = Date.UTC(2026, 0, 15, 12)
const NOON = NOON_MS / HOUR_MS
const RUN = '0123456789abcdef'

test('a block is kept for four hours after its hour, or after it was saved where its hour is ahead of the clock', () => {
  const block = (worker: number, hour: number): Buffer =>
    encodeBlock(RUN, { worker, hour, count: 1, bits: Uint8Array.of(0, 0, 0, 0) }, NOON_MS)
  const blocks = [block(1, NOON), block(2, NOON - 2), block(3, NOON + 24)]
  const keptAt = (wallMs: number): number[] => {
    const runs = new EarlierRuns(newEarlierBuffer(blocks, wallMs))
    expect([...new EarlierRuns(newEarlierBuffer(blocks, NOON_MS)).saved(wallMs)]).toHaveLength([...runs.saved(wallMs)].length)
    return [1, 2, 3].filter((worker) => runs.savedMs(RUN, worker, [NOON, NOON - 2, NOON + 24][worker - 1]!) !== undefined)
  }
  expect(keptAt(NOON_MS + HOUR_MS)).toEqual([1, 2, 3])
  expect(keptAt(NOON_MS + 3 * HOUR_MS)).toEqual([1, 3])
  expect(keptAt(NOON_MS + 4 * HOUR_MS)).toEqual([])
})
