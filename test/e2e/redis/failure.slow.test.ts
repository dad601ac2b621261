import { expect, test } from 'vitest'
import { verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { outageSuite, startSuite } from '../../support/redis/outage-suite.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT, admitted, answersBy, HARDLY_ANY, hasRedis, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const PASSWORD = 'pa55-of-redis'
const ASKED = 8
const LIMIT = 4
const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], LIMIT, HARDLY_ANY)] }))

startSuite('open', 'closed')
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

describeWithRedis('without Redis', () => {
  const shared = redisOfSuite()

  test('two instances on their own admit at most the limit each, from before the loss until after the return', async () => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: FOUR })
    const statuses = [await edges[0].decideTimes(3), await edges[1].decideTimes(1)]
    await redis.stop()
    await until(async () => !(await hasRedis(edges[0])) && !(await hasRedis(edges[1])))
    const during = await Promise.all(edges.map((edge) => edge.decideTimes(LIMIT + 1)))
    // By their own count they have 1 and 3 left.
    expect(during.map(admitted)).toEqual([1, 3])
    await redis.start()
    await until(async () => (await hasRedis(edges[0])) && (await hasRedis(edges[1])))
    const after = await Promise.all(edges.map((edge) => edge.decideTimes(LIMIT + 1)))
    expect(admitted([...statuses, ...during, ...after].flat())).toBe(2 * LIMIT)
  })

  test('what an instance admitted on its own is charged to the fleet when it is back', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const ten = bundle(1, policy('p', { rules: [bucketRule('ten', [], 10, HARDLY_ANY)] }))
    const [cutOff, other] = await Promise.all([sharing(`redis://${gate.address}`, { bundle: ten }), sharing(redis.url, { bundle: ten })])
    await cutOff.decide()
    gate.refuse()
    gate.cut()
    await until(async () => !(await hasRedis(cutOff)))
    expect(admitted(await cutOff.decideTimes(5))).toBe(5)
    await gate.accept()
    await until(() => hasRedis(cutOff))
    expect((await cutOff.decide()).status).toBe(200)
    expect(admitted(await other.decideTimes(10))).toBe(3)
  })

  test('a shutdown waits for who waits for a silent one, and no longer', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const redisDeadlines = new HeldDeadlines()
    const edge = await sharing(`redis://${gate.address}`, { bundle: FOUR, redisDeadlines })
    const { requests } = gate.bytes
    redis.pause()
    const answer = edge.decide()
    // Bytes alone may be those of a probe; who asks later is not answered before the decision was read.
    expect((await edge.get('/livez')).status).toBe(200)
    await until(() => gate.bytes.requests > requests)
    await redisDeadlines.passDuring(60_000, edge.stop())
    expect((await answer).status).toBe(200)
  })

  test('a shutdown without it is no sign of its return', async () => {
    const redis = shared()
    const edge = await sharing(redis.url, { bundle: FOUR })
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    await edge.stop()
    expect(edge.log.filter(({ event }) => String(event).startsWith('redis_'))).toMatchObject([{ event: 'redis_unavailable' }])
  })

  test('/readyz tells of one that fell silent, though nobody asks for a decision', async () => {
    const redis = shared()
    const redisDeadlines = new HeldDeadlines()
    const edge = await sharing(redis.url, { bundle: FOUR, redisDeadlines })
    expect(await hasRedis(edge)).toBe(true)
    redis.pause()
    await redisDeadlines.passUntil(60_000, async () => !(await hasRedis(edge)))
    redis.resume()
    await until(() => hasRedis(edge))
    expect(await countersIn(redis)).toEqual([])
    expect(await answersBy(edge)).toEqual({ redis: 0, failureMode: 0 })
  })
})
