import { expect, test } from 'vitest'
import { BodyMemory, forgetBodies, newBodyMemoryBuffer } from './body-memory.ts'

const KIB = 1024
const OPTIONS = { bodyMemoryBytes: 1024 * KIB, maxBodyBytes: 64 * KIB, hashKey: [1, 2] as const }

test('the bodies of requests that wait hold at most a quarter of the memory, in all workers together', () => {
  const buffer = newBodyMemoryBuffer(2)
  const [one, two] = [1, 2].map((worker) => new BodyMemory(buffer, worker, OPTIONS))
  expect([one!.beginWait(200 * KIB), two!.beginWait(57 * KIB), two!.beginWait(56 * KIB)]).toEqual([true, false, true])
  expect([one!.beginWait(1), one!.beginWait(0)]).toEqual([false, true])
  one!.endWait(200 * KIB)
  expect(two!.beginWait(200 * KIB)).toBe(true)
})

test('what a dead worker had waiting is free again', () => {
  const buffer = newBodyMemoryBuffer(2)
  const [one, two] = [1, 2].map((worker) => new BodyMemory(buffer, worker, OPTIONS))
  expect(one!.beginWait(256 * KIB)).toBe(true)
  expect(two!.beginWait(KIB)).toBe(false)
  forgetBodies(buffer, 1)
  expect(two!.beginWait(256 * KIB)).toBe(true)
})
