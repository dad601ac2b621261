import { expect, test } from 'vitest'
import { verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { outageSuite } from '../../support/redis/outage-suite.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT, admitted, answersBy, HARDLY_ANY, hasRedis, sharing } from '../../support/redis/sharing-edge.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], 4, HARDLY_ANY)] }))
const PASSWORD = 'pa55-of-redis'
const ASKED = 8

outageSuite('is slow', 'is a black hole', 'has no memory left', 'stands still')

describeWithRedis('without Redis', () => {
  test('each worker says once that it is gone and once that it is back, without the password', async () => {
    const redis = await runningRedis({ password: PASSWORD })
    const cli = await servingOn(2, FOUR, { EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT })
    await until(() => hasRedis(cli))
    // What a busy machine has said of its start is in the log when it answers this.
    await verdictAfter(cli, async () => cli.process.kill('SIGHUP'))
    const before = cli.log.length
    const workersOf = (name: string): unknown[] =>
      cli.log
        .slice(before)
        .filter(({ event }) => event === name)
        .map(({ worker }) => worker)
    await redis.stop()
    await until(() => workersOf('redis_unavailable').length === 2)
    await redis.start()
    await until(() => workersOf('redis_available').length === 2)
    await cli.stop()
    for (const event of ['redis_unavailable', 'redis_available']) expect(workersOf(event).sort()).toEqual([1, 2])
    expect(cli.stdout + cli.stderr).not.toContain(PASSWORD)
  })
})

describeWithRedis('an event loop of ours that is late', () => {
  test('is not held against Redis: all is answered by it', async () => {
    const redis = await runningRedis()
    const rules = [bucketRule('many', [], 100, HARDLY_ANY)]
    const redisDeadlines = new HeldDeadlines()
    const env = { EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env, redisDeadlines })
    const answers = Array.from({ length: ASKED }, () => edge.decide())
    let isDone = false
    const all = Promise.all(answers).finally(() => {
      isDone = true
    })
    const isWaiting = (): boolean => !isDone
    // Whatever is under way between two turns waits in the socket for longer than it may.
    while (isWaiting()) {
      await new Promise(setImmediate)
      redis.standStillUntilServed()
      redisDeadlines.pass(120_000)
    }
    expect(admitted(await all)).toBe(ASKED)
    expect(await answersBy(edge)).toEqual({ redis: ASKED, failureMode: 0 })
    expect(edge.logged('redis_unavailable')).toEqual([])
  })
})
