import { describe, expect, test } from 'vitest'
import { containerMemoryBytes, workerHeapMib } from './container-memory.ts'

const MIB = 1024 ** 2

describe('containerMemoryBytes', () => {
  test.each([
    ['a limit', 512 * MIB, 512 * MIB],
    ['no limit, as cgroup v2 says it', 0, undefined],
    ['no limit, as cgroup v1 says it', 2 ** 63, undefined],
    ['a limit that the machine does not have', 32_768 * MIB, undefined],
  ])('%s', (_what, limit, expected) => {
    expect(containerMemoryBytes(limit, 16_384 * MIB)).toBe(expected)
  })
})

describe('workerHeapMib', () => {
  test.each([
    ['shares three quarters, without the counters, with the main thread', 64, 2, 512, 106],
    ['gives fewer workers more', 64, 1, 512, 160],
    ['is never less than a thread needs', 64, 2, 96, 32],
    ['nor if the counters take everything', 1024, 4, 512, 32],
  ])('%s', (_what, storeMib, workers, memoryMib, expected) => {
    expect(workerHeapMib(storeMib * MIB, workers, memoryMib * MIB)).toBe(expected)
  })

  test('there is no bound where memory has none', () => {
    expect(workerHeapMib(64 * MIB, 2, containerMemoryBytes(0, 1))).toBeUndefined()
  })
})
