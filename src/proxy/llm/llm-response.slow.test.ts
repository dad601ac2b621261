import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { WorkSlices } from '../../time/slices.ts'
import { type LlmResponseParts, WholeResponse } from './llm-response.ts'

const MIB = 1024 * 1024
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

test('nothing of a response is kept, in however small chunks it comes', async () => {
  let isPaused = false
  const settled: unknown[] = []
  const settlement = { settleUncounted: (used: unknown) => settled.push(used), reserveAll: () => {} }
  const parts = {
    settlement,
    request: { promptTokens: 3 },
    maxBodyBytes: 16 * MIB,
    slices: new WorkSlices(),
  } as unknown as LlmResponseParts
  const response = new WholeResponse({ status: 200, fields: [] } as never, parts, {
    deliver() {},
    flush() {},
    cut() {},
    failDamaged() {},
    abandon() {},
    holdBackend() {},
    pauseBackend: () => {
      isPaused = true
    },
    resumeBackend: () => {
      isPaused = false
    },
  })
  const text = `{"choices":[{"text":"${'x'.repeat(200_000)}"}]}`
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (const letter of text) {
    response.read(Buffer.from(letter))
    while (isPaused) await nextTurn()
  }
  collectGarbage()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * MIB)
  response.end(() => {})
  expect(settled).toMatchObject([{ input: 3, output: 50_000 }])
})
