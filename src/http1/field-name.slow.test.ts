import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { fieldName } from './field-name.ts'

test('a name keeps nothing of the head that it came in', () => {
  const heads = 400
  const before = usedBytes()
  for (let i = 0; i < heads; i++) fieldName(`X-Long-Enough-To-Be-A-Slice-${i}: ${'v'.repeat(64 * 1024)}`.split(':')[0]!)
  expect(usedBytes() - before).toBeLessThan((heads * 64 * 1024) / 4)
})

/** On the heap, when all is gone that nobody needs. */
function usedBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}
