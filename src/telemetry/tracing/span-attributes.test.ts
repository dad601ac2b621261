import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { requestAttributes } from './span-attributes.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

test('a path is cut, and does not hold on to the target that it came with', () => {
  const heapBytes = (): number => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const spans = 2048
  const targetBytes = 15_000
  const before = heapBytes()
  const kept = Array.from({ length: spans }, (_, i) => {
    const uri = Buffer.alloc(targetBytes, `/${i}/a-long-target`).toString('latin1')
    return requestAttributes({ method: 'GET', uri: i % 2 === 0 ? uri : `/short?query=${uri}` })
  })
  expect(heapBytes() - before).toBeLessThan((spans * targetBytes) / 4)
  expect(kept[2]!['url.path']).toHaveLength(256)
  expect(kept[3]!['url.path']).toBe('/short')
})
