import { expect, test } from 'vitest'
import { TimeShare } from './slices.ts'

test('work waits when more than the share was used, until it has grown back', () => {
  const share = new TimeShare(0.1, 20, 1000)
  share.spend(20, 1000)
  expect(share.waitMs(1000)).toBe(0)
  share.spend(30, 1000)
  expect(share.waitMs(1000)).toBe(300)
  expect(share.waitMs(1299)).toBe(1)
  expect(share.waitMs(1300)).toBe(0)
})

test('what is not used adds up to the burst and no further', () => {
  const share = new TimeShare(0.1, 20, 0)
  share.spend(25, 1e9)
  expect(share.waitMs(1e9)).toBe(50)
})

test('over a long time, work that never pauses by itself gets its share', () => {
  const share = new TimeShare(0.1, 20, 0)
  let [nowMs, workMs] = [0, 0]
  while (nowMs < 100_000) {
    nowMs += share.waitMs(nowMs)
    share.spend(7, nowMs)
    workMs += 7
    nowMs += 7
  }
  expect(workMs / nowMs).toBeCloseTo(0.1, 2)
})

test('a thread that stood still owes no more than its longest work', () => {
  const share = new TimeShare(0.1, 20, 0)
  share.spend(60_000, 60_000)
  expect(share.waitMs(60_000)).toBe(800)
})
