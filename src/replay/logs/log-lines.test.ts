import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { LogLines } from './log-lines.ts'
import type { LoggedRequest } from './logged-request.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const LINE = '203.0.113.7 - - [02/Jan/2026:15:04:05 +0000] "GET /x HTTP/1.1" 200 1 "-" "-"\n'
const MiB = 1024 ** 2

test.each([
  ['unreadable lines', `${'x'.repeat(128 * 1024)}\n`, 400],
  ['blank lines', `${' '.repeat(128 * 1024)}\n`, 400],
  ['lines that are too long', `${'x'.repeat(MiB + 1000)}\n`, 200],
])('requests between %s do not keep them in memory', (_, skipped, count) => {
  const requests: LoggedRequest[] = []
  const lines = new LogLines((read) => {
    if (typeof read === 'object') requests.push(read)
  })
  const piece = Buffer.from(skipped.slice(-128 * 1024) + LINE + LINE)
  gc()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < count; i++) {
    if (skipped.length > piece.length) lines.push(skipped.slice(0, -128 * 1024))
    lines.push(piece.toString('latin1'))
  }
  gc()
  expect(requests).toHaveLength(2 * count)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * MiB)
})
