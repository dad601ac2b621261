import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { StreamingCall } from './grpc-method.ts'
import { HealthWatches } from './health-service.ts'

class RecordedCall implements StreamingCall {
  readonly isOver = false
  readonly messages: number[] = []
  endedWith: number | undefined

  send(message: Uint8Array): void {
    this.messages.push(message[1]!)
  }

  end(status: number): void {
    this.endedWith = status
  }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('calls of Watch', () => {
  test('share one timer, which runs only while there are some', () => {
    const watches = new HealthWatches(() => true)
    const calls = [new RecordedCall(), new RecordedCall()]
    for (const call of calls) watches.add(call, true)
    expect(vi.getTimerCount()).toBe(1)
    for (const call of calls) watches.delete(call)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('are told of a change that nobody has reported', () => {
    let isReady = false
    const watches = new HealthWatches(() => isReady)
    const call = new RecordedCall()
    watches.add(call, true)
    isReady = true
    vi.advanceTimersByTime(1000)
    expect(call.messages).toEqual([2, 1])
  })

  test('are bounded in number; one that ends makes room', () => {
    const watches = new HealthWatches(() => true)
    const calls = Array.from({ length: 1001 }, () => new RecordedCall())
    for (const call of calls) watches.add(call, false)
    expect(calls.filter(({ endedWith }) => endedWith === 8)).toEqual([calls[1000]])
    watches.delete(calls[0]!)
    const next = new RecordedCall()
    watches.add(next, true)
    expect([next.messages, next.endedWith]).toEqual([[1], undefined])
  })
})
