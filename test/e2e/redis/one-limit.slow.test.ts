import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { runningFleet } from '../../support/fleet/fleet.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT, admitted, HARDLY_ANY, hasRedis, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { countersIn, storedBucket } from '../../support/redis/stored-counters.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { exchange } from '../../support/service/http.ts'
import { Load } from '../../support/service/load.ts'
import { decisionBytes, original, readAnswers } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const MINUTE_MS = 60_000
const TEN = bundle(1, policy('p', { rules: [bucketRule('ten', ['header:x-caller'], 10, HARDLY_ANY)] }))
const ALICE = { fields: [['X-Caller', 'alice']] } as const

describeWithRedis('one limit for several processes', () => {
  test('two processes of two workers each admit it together', async () => {
    const redis = await runningRedis()
    const rules = [bucketRule('hundred', [], 100, HARDLY_ANY)]
    const env = { EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT, EDGE_WORKERS: '2' }
    const fleet = await runningFleet({ size: 2, bundle: bundle(1, policy('p', { rules })), env })
    for (const instance of fleet.instances) await until(() => hasRedis(instance))
    const loads = fleet.instances.map(({ port }) => new Load(port, original('/'), 16))
    onTestFinished(async () => void (await Promise.all(loads.map((load) => load.stop()))))
    await until(() => loads.every((load) => load.count(429) > 100))
    await Promise.all(loads.map((load) => load.stop()))

    expect(loads.reduce((sum, load) => sum + load.count(200), 0)).toBe(100)
    expect(loads.map((load) => [load.total - load.count(200) - load.count(429), load.errors])).toEqual([
      [0, []],
      [0, []],
    ])
  })
})

describeWithRedis('one limit for several instances', () => {
  const shared = redisOfSuite()

  test('questions that follow one another on a connection are answered in their order', async () => {
    const redis = shared()
    const gate = await gateTo(redis.port)
    const edge = await sharing(`redis://${gate.address}`, { bundle: TEN })
    gate.delayMs = 20
    const callers = ['alice', 'bob', 'alice', 'nobody', 'bob', 'alice']
    // Who names nobody is asked about nowhere, and its answer is there at once.
    const fields = callers.map((caller) => original('/', ...(caller === 'nobody' ? [] : [['X-Caller', caller] as const])))
    const bytes = fields.map((some, i) => decisionBytes(some, { isLast: i === fields.length - 1 }))
    const answers = readAnswers(await exchange(edge.port, Buffer.concat(bytes)))
    expect(answers.map(({ status, headers }) => [status, headers['ratelimit-remaining']])).toEqual([
      [200, '9'],
      [200, '9'],
      [200, '8'],
      [200, undefined],
      [200, '8'],
      [200, '7'],
    ])
  })

  test('another prefix is another fleet', async () => {
    const redis = shared()
    const one = await sharing(redis.url, { bundle: TEN })
    const other = await sharing(redis.url, { bundle: TEN, env: { EDGE_REDIS_PREFIX: 'other:' } })
    expect(admitted(await one.decideTimes(12, ALICE))).toBe(10)
    expect(admitted(await other.decideTimes(12, ALICE))).toBe(10)
    expect((await countersIn(redis)).map((key) => key.replace(/[0-9a-f]{32}$/, ''))).toEqual(['edge:', 'other:'])
  })

  test('a new limit in the bundle holds on both, and what was spent stays spent', async () => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: TEN })
    await edges[0].decideTimes(4, ALICE)
    const five = bundle(2, policy('p', { rules: [bucketRule('ten', ['header:x-caller'], 5, HARDLY_ANY)] }))
    await Promise.all(edges.map((edge) => edge.publish(five)))
    const [first, second] = [await edges[0].decideTimes(4, ALICE), await edges[1].decideTimes(4, ALICE)]
    // Six were left, and five are the most there can be now.
    expect(admitted([...first, ...second])).toBe(5)
  })
})

describeWithRedis('keys expire', () => {
  const shared = redisOfSuite()

  test('a bucket when it is full again, and not earlier', async () => {
    const redis = shared()
    // The slow one stays long enough to be looked at on any machine, the fast one can be waited for.
    const [slow, fast] = [0.001, 20].map((perSecond) =>
      policy(`p${perSecond}`, { selector: { pathPrefix: `/${perSecond}` }, rules: [bucketRule('r', [], 10, perSecond)] }),
    )
    const edge = await sharing(redis.url, { bundle: bundle(1, slow!, fast!) })
    for (let i = 0; i < 10; i++) {
      await edge.decide({ uri: '/0.001' })
      const [key] = await countersIn(redis)
      const { level, atMs, expiresMs } = await storedBucket(redis, key!)
      const fullMs = atMs + ((10 - level) / 0.001) * 1000
      // Redis keeps a key through all of its last millisecond. Between two looks at its clock a busy machine may stand still.
      expect(expiresMs + 1).toBeGreaterThan(fullMs - 0.5)
      expect(expiresMs).toBeLessThan(fullMs + MINUTE_MS)
    }
    const kept = await countersIn(redis)
    await until(async () => {
      await edge.decideTimes(5, { uri: '/20' })
      return (await countersIn(redis)).length === 2
    })
    await until(async () => (await countersIn(redis)).length === 1)
    expect(await countersIn(redis)).toEqual(kept)
    expect(remaining(await edge.decide({ uri: '/20' }))).toBe(9)
  })

  test('a rejected request leaves nothing', async () => {
    const redis = shared()
    const rules = [bucketRule('wide', [], 10, HARDLY_ANY), llmRule('narrow', [], { tokens_per_minute: 5, max_completion_tokens: 6 })]
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules })) })
    expect((await edge.decide()).status).toBe(429)
    expect(await countersIn(redis)).toEqual([])
  })
})
