import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, concurrencyRule, policy, unlimitedRule, windowRule } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { loadOnAll, servingOn } from '../../support/workers/workers.ts'

const HARDLY_ANY = 0.0001
const LIMIT = 10
const KEYED = policy('api', {
  rules: [
    bucketRule('per-key', ['header:x-key'], LIMIT, HARDLY_ANY),
    windowRule('daily', ['header:x-daily'], { limit: 2, period: '1y' }),
    concurrencyRule('at-once', ['header:x-held'], 1, 3600),
    bucketRule('secret', ['bearer'], 1, HARDLY_ANY),
    blockRule('bad', { 'header:x-bad': '1' }),
    unlimitedRule('friend', { 'header:x-friend': '1' }),
  ],
})

function reset(port: number, key: string, more: object = {}): Promise<AdminResponse> {
  const body = { policy: 'api', rule: 'per-key', values: { 'header:x-key': key }, reason: 'a test', ...more }
  return askAdmin(port, 'POST', 'counters/reset', { body, actor: 'olga' })
}

describe('a reset on two threads', () => {
  test('is in force on both with its response, in the middle of their traffic', async () => {
    const cli = await servingOn(2, bundle(1, KEYED), ADMIN_ENV)
    const load = await loadOnAll(cli.port, original('/', ['X-Key', 'alice']), 4, adminPortOf(cli))
    await rejectedMore(load)
    expect(load.count(200)).toBe(LIMIT)
    for (let resets = 1; resets <= 3; resets++) {
      expect((await reset(adminPortOf(cli), 'alice')).status).toBe(200)
      await rejectedMore(load)
      expect(load.count(200)).toBe(LIMIT * (resets + 1))
    }
  })

  test('is durable before its response: after a crash nothing from before comes back', async () => {
    const directory = await scratchDirectory()
    const cli = await servingOn(2, bundle(1, KEYED), { ...ADMIN_ENV, EDGE_STATE_FILE: join(directory, 'state') })
    for (const key of ['alice', 'bob']) expect(await take(cli, key, LIMIT)).toEqual(Array(LIMIT).fill(200))
    // The first reset saves what both have spent, the second that alice has not.
    await reset(adminPortOf(cli), 'somebody')
    expect((await reset(adminPortOf(cli), 'alice')).status).toBe(200)
    cli.process.kill('SIGKILL')
    await cli.exited
    const next = await serving({ EDGE_CONFIG_FILE: cli.bundlePath, EDGE_STATE_FILE: join(directory, 'state'), EDGE_STORE_SIZE: '1m' })
    expect(await take(next, 'bob', 1)).toEqual([429])
    expect(await take(next, 'alice', LIMIT + 1)).toEqual([...Array(LIMIT).fill(200), 429])
  })
})

/** Each of its callers has been rejected since. */
async function rejectedMore(load: { count(status: number): number; readonly laneCount: number }): Promise<void> {
  const enough = load.count(429) + 2 * load.laneCount
  await until(() => load.count(429) >= enough)
}

async function take({ port }: Cli, key: string, times: number): Promise<number[]> {
  const statuses: number[] = []
  for (let i = 0; i < times; i++) statuses.push((await ask(port, 'POST', '/v1/decision', original('/', ['X-Key', key]))).status)
  return statuses
}
