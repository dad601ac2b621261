import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { SilenceSweep } from './silence-sweep.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

test.each([20, 100, 1000, 60_000])('what may last %i ms is never found too early, and soon after it is over', (ms) => {
  for (let noted = 0; noted < 10; noted++) {
    let isFound = false
    let sinceMs = Number.POSITIVE_INFINITY
    const sweep: SilenceSweep = new SilenceSweep(ms, () => {
      isFound ||= sweep.isOver(sinceMs, ms)
      return true
    })
    sweep.start()
    onTestFinished(() => sweep.stop())
    // At any place between two looks.
    vi.advanceTimersByTime((ms * noted) / 7)
    sinceMs = sweep.listenedMs
    vi.advanceTimersByTime(ms)
    expect(isFound).toBe(false)
    vi.advanceTimersByTime(Math.max(ms / 2, 20))
    expect(isFound).toBe(true)
  }
})

test('the time in which this thread heard nobody is no silence', () => {
  const sweep = new SilenceSweep(1000, () => true)
  sweep.start()
  onTestFinished(() => sweep.stop())
  const sinceMs = sweep.listenedMs
  const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000)
  vi.advanceTimersByTime(100)
  now.mockRestore()
  expect([sweep.isOver(sinceMs, 1000), sweep.nowMs > 59_000]).toEqual([false, true])
})

test('it looks only while there is something to watch', () => {
  let looks = 0
  let isWatching = true
  const sweep = new SilenceSweep(1000, () => {
    looks++
    return isWatching
  })
  vi.advanceTimersByTime(10_000)
  expect(looks).toBe(0)
  sweep.start()
  sweep.start()
  vi.advanceTimersByTime(1000)
  expect(looks).toBe(10)
  isWatching = false
  vi.advanceTimersByTime(10_000)
  expect(looks).toBe(11)
})
