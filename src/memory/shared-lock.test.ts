import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { sized } from '../../test/support/run/property-runs.ts'
import { newGate, runThread, startThread } from '../../test/support/threads/threads.ts'
import { until } from '../../test/support/until.ts'
import { acquire, ownerOf, release } from './shared-lock.ts'

describe('a lock', () => {
  test('names its owner while it is held, and nobody before and after', () => {
    const words = newWords(3)
    expect(ownerOf(words, 1)).toBe(0)
    acquire(words, 1, 63)
    expect([0, 1, 2].map((index) => ownerOf(words, index))).toEqual([0, 63, 0])
    release(words, 1)
    expect([...words]).toEqual([0, 0, 0])
  })

  test('is never waited for by the thread that holds it', () => {
    const words = newWords(1)
    acquire(words, 0, 7)
    expect(() => acquire(words, 0, 7)).toThrow('this thread holds the lock already')
  })

  test('lets one thread in at a time: no count is lost among four that count in plain memory', async () => {
    const [words, counts] = [newWords(1), newWords(1)]
    const [gate, times] = [newGate(4), sized(5000, 150_000)]
    const threads = [1, 2, 3, 4].map((owner) => runThread('counting-thread', { words, counts, owner, gate, times }))
    await Promise.all(threads)
    expect(counts[0]).toBe(4 * times)
    expect(ownerOf(words, 0)).toBe(0)
  })

  test('names its owner also to those who wait for it, and goes to them when it is released', async () => {
    const [words, counts] = [newWords(1), newWords(1)]
    acquire(words, 0, 7)
    const held = words[0]
    const thread = startThread('counting-thread', { words, counts, owner: 8, gate: newGate(1), times: 1 })
    const ended = once(thread, 'exit')
    await until(() => Atomics.load(words, 0) !== held) // The other one has announced itself.
    expect(ownerOf(words, 0)).toBe(7)
    expect(counts[0]).toBe(0)
    release(words, 0)
    await ended
    expect(counts[0]).toBe(1)
    expect(ownerOf(words, 0)).toBe(0)
  })
})

function newWords(count: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(count * 4))
}
