import { expect, test } from 'vitest'
import { BodyMemory, forgetBodies, newBodyMemoryBuffer } from './body-memory.ts'

const KIB = 1024
const OPTIONS = { bodyMemoryBytes: 6000 * KIB, maxBodyBytes: 1000 * KIB, hashKey: [1, 2] as const }

/** Claims memory for bodies of 100 KiB, each of another caller, and sends them to the backend until it gets no more. */
function fill(memories: readonly BodyMemory[], backend: string): number {
  for (let count = 0; ; count++) {
    const memory = memories[count % memories.length]!
    const caller = [memory.holder(['caller', backend, String(count)], 1)]
    if (memory.rest.resize(caller, 0, 100 * KIB) !== 'done') return count
    if (memory.beginCall(memory.holder(['backend', backend], 1), 100 * KIB)) continue
    memory.rest.resize(caller, 100 * KIB, 0)
    return count
  }
}

test('backends that hang leave as much memory to others as each of them has, in all workers together', () => {
  const buffer = newBodyMemoryBuffer(2)
  const memories = [1, 2].map((worker) => new BodyMemory(buffer, worker, OPTIONS))
  // 6,000 KiB: one takes half, the second one half of the rest.
  expect(fill(memories, 'a')).toBe(30)
  expect(fill(memories, 'b')).toBe(15)
  expect(fill(memories, 'a')).toBe(0)
  for (let i = 0; i < 5; i++) memories[0]!.endCall(memories[0]!.holder(['backend', 'a'], 1), 100 * KIB)
  forgetBodies(buffer, 2)
  expect(fill(memories, 'b')).toBeGreaterThan(0)
})

test('one body may always go to a backend, whatever others hold', () => {
  const buffer = newBodyMemoryBuffer(1)
  const memory = new BodyMemory(buffer, 1, OPTIONS)
  fill([memory], 'a')
  while (memory.rest.resize([memory.holder(['caller', String(memory.ownBytes)], 1)], 0, 100 * KIB) === 'done');
  const backend = memory.holder(['backend', 'b'], 1)
  expect([memory.beginCall(backend, 1000 * KIB), memory.beginCall(backend, 1000 * KIB)]).toEqual([true, false])
})
