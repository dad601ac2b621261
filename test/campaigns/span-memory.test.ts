import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { requestAttributes } from '../../src/telemetry/tracing/request-trace.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const SPANS = 2048
const TARGET_BYTES = 15_000

test('the path of a span does not hold on to the target that it came with', () => {
  const targets = bytesKept((uri) => uri)
  const paths = bytesKept((uri) => requestAttributes({ method: 'GET', uri }))
  const short = bytesKept((uri) => requestAttributes({ method: 'GET', uri: `/short?query=${uri}` }))
  expect(targets).toBeGreaterThan((SPANS * TARGET_BYTES) / 2)
  for (const bytes of [paths, short]) expect(bytes).toBeLessThan(targets / 4)
})

/** What is on the heap of what this makes of so many targets. */
function bytesKept(make: (uri: string) => unknown): number {
  const before = heapBytes()
  const kept = Array.from({ length: SPANS }, (_, i) => make(Buffer.alloc(TARGET_BYTES, `/${i}/a-long-target`).toString('latin1')))
  const bytes = heapBytes() - before
  expect(kept).toHaveLength(SPANS)
  return bytes
}

function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
