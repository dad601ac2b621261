import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { HeldDeadlines } from '../../support/redis/held-deadlines.ts'
import { outageSuite } from '../../support/redis/outage-suite.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, hasRedis, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const LIMIT = 4
const FOUR = bundle(1, policy('p', { rules: [bucketRule('four', [], LIMIT, HARDLY_ANY)] }))
const ASKED = 8
/** How long a start waits for Redis. */
const FIRST_USE_MS = 2000

outageSuite('goes away')

describeWithRedis('without Redis', () => {
  const shared = redisOfSuite()

  test.for([
    ['local', LIMIT],
    ['open', ASKED],
    ['closed', 0],
  ] as const)('at the start, %s: it is ready all the same, admits %i of 8, and uses Redis when it comes', async ([mode, expected]) => {
    const redis = shared()
    await redis.stop()
    const redisDeadlines = new HeldDeadlines()
    const starting = sharing(redis.url, { bundle: FOUR, env: { EDGE_REDIS_FAILURE_MODE: mode }, redisDeadlines })
    const edge = await redisDeadlines.passDuring(FIRST_USE_MS, starting)
    const ready = await edge.get('/readyz')
    expect([ready.status, JSON.parse(ready.body)]).toMatchObject([200, { status: 'ready', redis: 'unavailable' }])
    expect(admitted(await edge.decideTimes(ASKED))).toBe(expected)
    expect(await answersBy(edge)).toEqual({ redis: 0, failureMode: ASKED })
    await redis.start()
    await until(() => hasRedis(edge))
    await edge.decide()
    expect(await answersBy(edge)).toEqual({ redis: 1, failureMode: ASKED })
  })

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

  test('a proxy says so in the body that its clients read, and the backend hears nothing', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const env = { ...proxyEnv(backend.url), EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: FOUR, env })
    expect((await ask(edge.port, 'GET', '/')).status).toBe(200)
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    const { status, headers, body } = await ask(edge.port, 'POST', '/', [], 'a body')
    expect([status, headers['content-type'], headers['x-edge-reason']]).toEqual([503, 'application/json', 'store_unavailable'])
    expect(JSON.parse(body)).toEqual({
      error: { message: expect.any(String), type: 'service_unavailable', code: 'store_unavailable' },
    })
    expect(backend.seen).toHaveLength(1)
  })
})
