import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { fieldName } from './field-name.ts'

test('a field is known by its name, whatever its case', () => {
  for (const name of ['Keep-Alive', 'keep-alive', 'KEEP-ALIVE']) {
    expect(fieldName(name)).toMatchObject({ lower: 'keep-alive', isValid: true, isHopByHop: true })
  }
  expect(fieldName('X-Any')).toMatchObject({ lower: 'x-any', isValid: true, isHopByHop: false })
  for (const name of ['', 'a b', 'a:', 'ü']) expect(fieldName(name).isValid).toBe(false)
})

test('a name keeps nothing of the head that it came in', () => {
  const heads = 400
  const before = usedBytes()
  for (let i = 0; i < heads; i++) fieldName(`X-Long-Enough-To-Be-A-Slice-${i}: ${'v'.repeat(64 * 1024)}`.split(':')[0]!)
  expect(usedBytes() - before).toBeLessThan((heads * 64 * 1024) / 4)
})

test('names that somebody makes up do not keep the usual ones from being remembered', () => {
  for (let i = 0; i < 5000; i++) fieldName(`x-made-up-${i}`)
  const first = fieldName('Content-Type')
  expect(fieldName('Content-Type')).toBe(first)
  // Once more among them, it stays.
  for (let i = 0; i < 5000; i++) {
    fieldName(`x-made-up-again-${i}`)
    if (i % 100 === 0) expect(fieldName('Content-Type')).toBe(first)
  }
})

/** On the heap, when all is gone that nobody needs. */
function usedBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}
