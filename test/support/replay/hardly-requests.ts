import { gzipSync } from 'node:zlib'
import { expect } from 'vitest'
import type { ReplayReport } from '../../../src/offline/replay/replay-report.ts'
import { LOG_WRITERS, type Logged } from './log-writers.ts'
import { replaying } from './replaying.ts'

/** Policies that cover all requests. */
export const ALL = [
  {
    id: 'all',
    spec: { rules: [{ name: 'r', limit_keys: [], algorithm: 'token_bucket', algorithm_config: { tokens_per_second: 1, burst: 2 } }] },
  },
]
export const FIVE_REQUESTS = LOG_WRITERS.json(
  Array.from({ length: 5 }, (): Logged => ({ timeMs: Date.parse('2026-01-01T00:00:00Z'), uri: '/' })),
)

/** Replays a compressed log that repeats something between requests, and whose end must not be reached. */
export async function readInPart(repeated: string, count: number): Promise<ReplayReport> {
  const log = gzipSync(FIVE_REQUESTS + repeated.repeat(count) + FIVE_REQUESTS)
  const { status, stdout, stderr } = await replaying({ 'a.json': ALL, log }, ['--bundle', 'a.json', '--json', 'log'])
  expect(status).toBe(0)
  expect(stderr).toMatch(
    /^edge replay: log:end: it contains too much text that is not requests \(more than 32 times its compressed size\), so the rest was skipped/m,
  )
  return JSON.parse(stdout) as ReplayReport
}
