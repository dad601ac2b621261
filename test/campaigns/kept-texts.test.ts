import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Engine } from '../../src/engine/engine.ts'
import { LogLines } from '../../src/offline/replay/logs/log-text.ts'
import type { LoggedRequest } from '../../src/offline/replay/logs/logged-request.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { TopCallers } from '../../src/top/top-callers.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const LINE = '203.0.113.7 - - [02/Jan/2026:15:04:05 +0000] "GET /x HTTP/1.1" 200 1 "-" "-"\n'
const MiB = 1024 ** 2

// A part of a text keeps all of it in memory, unless it is copied: what is kept here would be far more than this part of what was read.
const PART = 1 / 6

test.each([
  ['unreadable lines', `${'x'.repeat(128 * 1024)}\n`, 400],
  ['blank lines', `${' '.repeat(128 * 1024)}\n`, 400],
  ['lines that are too long', `${'x'.repeat(MiB + 1000)}\n`, 200],
])('logged requests between %s do not keep them in memory', (_, skipped, count) => {
  const requests: LoggedRequest[] = []
  const lines = new LogLines((read) => {
    if (typeof read === 'object') requests.push(read)
  })
  const piece = Buffer.from(skipped.slice(-128 * 1024) + LINE + LINE)
  const before = usedBytes()
  for (let i = 0; i < count; i++) {
    if (skipped.length > piece.length) lines.push(skipped.slice(0, -128 * 1024))
    lines.push(piece.toString('latin1'))
  }
  expect(usedBytes() - before).toBeLessThan(count * piece.length * PART)
  expect(requests).toHaveLength(2 * count)
})

test('a flood of callers with long values does not keep the requests that they are a part of', () => {
  const [clock, store] = [new ManualClock(), newEmbeddedStore(4 * MiB)]
  const top = new TopCallers({ store, hashKey: [1, 2], callerDigest: () => '0123456789abcdef' })
  const engine = new Engine({ store, clock, callerWatch: top })
  engine.activate(planOf(bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-k'], 4, 0.0001)] }))))
  const [count, bytes] = [2000, 64 * 1024]
  const before = usedBytes()
  for (let i = 0; i < count; i++) {
    const key = Buffer.from(`${i} ${'x'.repeat(bytes)}`)
      .toString('latin1')
      .slice(0, 600)
    for (const given of [5, 3]) void engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-k': key } }), { given })
    if (i % 50 === 0) clock.advance(100)
  }
  expect(usedBytes() - before).toBeLessThan(count * bytes * PART)
  expect(engine.plan).toBeDefined()
})

function usedBytes(): number {
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
