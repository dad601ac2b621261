import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, vi } from 'vitest'

const HELD = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const
const STEP_MS = 5

/**
 * Holds timers and the monotonic clock of this process during each test of a `describe`, or of a file: timeouts of a service that runs in it pass
 * when `pass` says so, however long the machine takes. Sockets, `until` and the timers inside `node:http` go on. Call it in the body of that.
 */
export function heldTime(): { pass(ms: number): void } {
  beforeEach(() => void vi.useFakeTimers({ toFake: [...HELD] }))
  // Before what the test started is stopped, which takes real time.
  afterEach(() => {
    // Modules outlive the test: what a timer would have ended there must not stay for ever.
    vi.runOnlyPendingTimers()
    vi.useRealTimers()
  })
  return { pass: (ms) => void vi.advanceTimersByTime(ms) }
}

/**
 * Lets timers of this process wait by turns during each test: however long one of them takes, no more than 5 ms pass in it. What a service does
 * about silence then depends on what was sent, and not on how long the machine stood still. Call it in the body of a `describe`, or of a file.
 */
export function timeByTurns(): void {
  let isOver = false
  let passing: Promise<void> | undefined
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    isOver = false
    passing = (async () => {
      while (!isOver) {
        await sleep(STEP_MS)
        vi.advanceTimersByTime(STEP_MS)
      }
    })()
  })
  afterEach(async () => {
    isOver = true
    await passing
    vi.runOnlyPendingTimers()
    vi.useRealTimers()
  })
}
