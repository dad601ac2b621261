import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { ReplayReport } from '../../src/offline/replay/replay-report.ts'
import { Random } from '../support/random/random.ts'
import { LimitModel, type ModelLimits, modelPolicy } from '../support/replay/limit-model.ts'
import { combinedLine, type Logged } from '../support/replay/log-writers.ts'
import { writeFiles } from '../support/replay/replaying.ts'
import { Cli } from '../support/service/cli.ts'
import { scratchDirectory } from '../support/service/running.ts'

const REQUESTS = 1_000_000
const CALLERS = 20_000
/** The whole log has 180 MB. */
const SMALL_HEAP = '--max-old-space-size=160'

const A: ModelLimits = { tokensPerSecond: 1000 / 1024 / 256, burst: 4, quota: 2000 }
const B: ModelLimits = { ...A, burst: 2 }

async function replayInSmallHeap(directory: string, ...args: string[]): Promise<ReplayReport> {
  const cli = new Cli(
    ['replay', ...args.map((arg) => (arg.startsWith('--') ? arg : join(directory, arg))), '--json'],
    {},
    { nodeFlags: [SMALL_HEAP] },
  )
  expect([await cli.exited, cli.stderr.slice(0, 2000)]).toEqual([0, expect.not.stringContaining('edge replay: warning')])
  return JSON.parse(cli.stdout) as ReplayReport
}

test('a million lines by two bundles, in a heap smaller than the log, come to what the model says', async () => {
  const directory = await scratchDirectory()
  await writeFiles(directory, { 'a.json': [modelPolicy(A)], 'b.json': [modelPolicy(B)] })
  const [a, b] = [new LimitModel(A), new LimitModel(B)]
  const expected = { rejectedA: 0, rejectedB: 0, newlyRejected: 0, newlyAllowed: 0 }
  const random = new Random(18)
  const log = createWriteStream(join(directory, 'access.log'))
  for (let i = 0; i < REQUESTS; ) {
    const lines: string[] = []
    for (const end = i + 10_000; i < end; i++) {
      const request = randomRequest(random, i)
      const [before, after] = [a.decide(request), b.decide(request)]
      if (before !== undefined) expected.rejectedA++
      if (after !== undefined) expected.rejectedB++
      if (before === undefined && after !== undefined) expected.newlyRejected++
      if (before !== undefined && after === undefined) expected.newlyAllowed++
      lines.push(combinedLine(request), '\n')
    }
    if (!log.write(lines.join(''))) await once(log, 'drain')
  }
  log.end()
  await once(log, 'finish')
  const { requests, unreadable, out_of_order, bundles, difference } = await replayInSmallHeap(
    directory,
    '--bundle',
    'a.json',
    '--bundle',
    'b.json',
    'access.log',
  )
  expect({ requests, unreadable, out_of_order }).toEqual({ requests: REQUESTS, unreadable: 0, out_of_order: undefined })
  const { newly_rejected: newlyRejected, newly_allowed: newlyAllowed } = difference!
  expect({ rejectedA: bundles[0]!.rejected, rejectedB: bundles[1]!.rejected, newlyRejected, newlyAllowed }).toEqual(expected)
  expect(expected.rejectedA).toBeGreaterThan(10_000)
  // More callers than are counted one by one: the counts say how far they may be off.
  const callers = bundles[1]!.rules.flatMap((rule) => rule.callers)
  const counted = callers.reduce((sum, { rejected }) => sum + rejected, 0)
  expect(counted).toBe(bundles[1]!.rejected)
  expect(callers.length).toBe(16_384)
  expect(bundles[1]!.max_error).toBeGreaterThan(0)
}, 600_000)

function randomRequest(random: Random, i: number): Logged {
  const headers = { referer: `https://${random.below(CALLERS)}.example/`, 'user-agent': `agent/${random.below(50)} (X11; Linux x86_64)` }
  return {
    timeMs: Date.parse('2026-03-01T00:00:00Z') + Math.floor(i / 200) * 1000,
    uri: `/api/items/${random.below(1000)}`,
    client: '203.0.113.7',
    headers,
  }
}

test('a line of a gigabyte, a compressed bomb and a nest of brackets do no harm', async () => {
  const directory = await scratchDirectory()
  const good = '{"time":"2026-01-01T00:00:00Z","method":"GET","uri":"/"}\n'
  const piece = gzipSync(Buffer.alloc(64 * 1024 ** 2, 'x'))
  const members = Array.from({ length: 16 }, () => piece)
  const entry = '{"startedDateTime":"2026-01-01T00:00:00Z","request":{"method":"GET","url":"http://a.example/"}}'
  const harStart = gzipSync('{"log":{"entries":[{"content":"')
  await writeFiles(directory, { 'a.json': [modelPolicy(A)] })
  await writeFile(join(directory, 'line.gz'), Buffer.concat([gzipSync(good), ...members, gzipSync(`\n${good}`)]))
  await writeFile(join(directory, 'har.gz'), Buffer.concat([harStart, ...members, gzipSync(`"},${entry}]}}`)]))
  await writeFile(join(directory, 'brackets.har'), `{"log":{"entries":[${'['.repeat(50 * 1024 ** 2)}`)
  await writeFile(join(directory, 'lines.log'), `${'['.repeat(1024 ** 2 - 1)}\n${'{"a":'.repeat(200_000)}\n`.repeat(20))
  const { requests, unreadable } = await replayInSmallHeap(
    directory,
    '--bundle',
    'a.json',
    'line.gz',
    'har.gz',
    'brackets.har',
    'lines.log',
  )
  // Of a compressed file that is nearly all one line, the rest is not read: that line and the end of the file are counted.
  expect({ requests, unreadable }).toEqual({ requests: 1, unreadable: 2 + 2 + 1 + 40 })
})
