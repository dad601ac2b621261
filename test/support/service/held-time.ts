import { afterEach, beforeEach, vi } from 'vitest'

const HELD = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const

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
