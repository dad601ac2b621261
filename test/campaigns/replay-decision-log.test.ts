import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ReplayReport } from '../../src/offline/replay/replay-report.ts'
import { jwt } from '../support/bundles/bundles.ts'
import { Random } from '../support/random/random.ts'
import { ask, type Fields } from '../support/service/http.ts'
import { finished, scratchDirectory, serving } from '../support/service/running.ts'

/** A policy for each key. So little comes back that the time between two requests makes no difference. */
const KEYS = ['header:x-k', 'bearer', 'jwt:sub', 'cookie:sid', 'query:q', 'path:2', 'ip:address', 'header:authorization'] as const
const BURST = 5

const POLICIES = KEYS.map((key, i) => ({
  id: key,
  spec: {
    selector: { pathPrefix: `/p${i}`, hosts: ['api.example'] },
    rules: [
      { name: 'few', limit_keys: [key], algorithm: 'token_bucket', algorithm_config: { tokens_per_second: 1e-6, burst: BURST } },
      { name: 'quota', limit_keys: [], algorithm: 'fixed_window', algorithm_config: { limit: 60, period: '1y' } },
    ],
  },
}))

test.each(['1', '2'])('what EDGE_DECISION_LOG wrote with %s workers gets the same verdicts again', async (workers) => {
  const directory = await scratchDirectory()
  const [config, log] = [join(directory, 'limits.json'), join(directory, 'decisions.jsonl')]
  await writeFile(config, JSON.stringify({ bundle_version: 1, policies: POLICIES }))
  const cli = await serving({ EDGE_CONFIG_FILE: config, EDGE_DECISION_LOG: log, EDGE_WORKERS: workers })
  const rejected = new Map<string, number>()
  const random = new Random(Number(workers))
  for (let i = 0; i < 600; i++) {
    const index = random.below(KEYS.length)
    const { status } = await ask(cli.port, 'POST', '/v1/decision', questionFields(index, random.below(12)))
    expect([200, 429]).toContain(status)
    if (status === 429) rejected.set(KEYS[index]!, (rejected.get(KEYS[index]!) ?? 0) + 1)
  }
  cli.process.kill('SIGTERM')
  expect(await cli.exited).toBe(0)
  expect(rejected.size).toBe(KEYS.length)
  const { status, stdout, stderr } = await finished(['replay', '--bundle', config, '--json', log])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const { requests, unreadable, bundles } = JSON.parse(stdout) as ReplayReport
  expect({ requests, unreadable, missing: bundles[0]!.missing }).toEqual({ requests: 600, unreadable: 0, missing: {} })
  const replayed = new Map<string, number>()
  for (const { policy, rejected: count } of bundles[0]!.rules) replayed.set(policy, (replayed.get(policy) ?? 0) + count)
  expect(replayed).toEqual(new Map(KEYS.map((key) => [key, rejected.get(key)!])))
})

function questionFields(policy: number, caller: number): Fields {
  const token = policy === KEYS.indexOf('header:authorization') ? `Basic ${caller}` : `Bearer ${jwt({ sub: `user-${caller}` })}`
  return [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', `/p${policy}/${caller}/x?q=${caller}&secret=1`],
    ['X-Original-Host', 'api.example'],
    ['X-Forwarded-For', `203.0.113.${caller}`],
    ['X-K', `é ${caller}`],
    ['Authorization', token],
    ['Cookie', `theme=dark; sid=s${caller}`],
  ]
}
