import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { worstWindow } from '../support/fleet/admissions.ts'
import { steadyRequests, untilAnsweredByRedis } from '../support/fleet/steady-requests.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, hasRedis, remaining, sharing, twoSharing } from '../support/redis/sharing-edge.ts'
import { countersIn, storedBucket } from '../support/redis/stored-counters.ts'
import { gateTo, type TcpGate } from '../support/redis/tcp-gate.ts'
import type { Edge } from '../support/service/edge.ts'
import { until } from '../support/until.ts'

const LIMIT = 10
/** So long that Redis answers in time on a busy machine, and short enough to wait for. */
const SHORT_MS = 2000
/** For half of it a busy machine may stand still while questions are on their way. */
const LONG_MS = 12_000
const TEN = bundle(1, policy('p', { rules: [bucketRule('ten', [], LIMIT, HARDLY_ANY)] }))

describeWithRedis('a Redis that forgets', () => {
  test.each([
    ['restarted empty', (redis: RedisServer) => redis.restart('lost')],
    ['flushed', (redis: RedisServer) => redis.command('FLUSHALL')],
  ])('%s: who took the tokens does not get them again', async (_, forget) => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { bundle: TEN })
    expect(admitted(await edge.decideTimes(6))).toBe(6)
    await forget(redis)
    await until(() => hasRedis(edge))
    expect(await countersIn(redis)).toEqual([])
    expect(admitted(await edge.decideTimes(LIMIT))).toBe(LIMIT - 6)
    const [key] = await countersIn(redis)
    expect((await storedBucket(redis, key!)).level).toBeLessThan(1)
  })

  test('restarted with its data: exactly the limit', async () => {
    const redis = await runningRedis()
    const edges = await twoSharing(redis.url, { bundle: TEN })
    const before = [...(await edges[0].decideTimes(3)), ...(await edges[1].decideTimes(3))]
    await redis.restart('kept')
    await until(async () => (await hasRedis(edges[0])) && (await hasRedis(edges[1])))
    const after = [...(await edges[0].decideTimes(4)), ...(await edges[1].decideTimes(4))]
    expect([admitted(before), admitted(after)]).toEqual([6, 4])
  })

  test('two instances admit at most twice the limit, none of them more than it, however often it forgets', async () => {
    const redis = await runningRedis()
    const edges = await twoSharing(redis.url, { bundle: TEN })
    const totals = [0, 0]
    for (let round = 0; round < 6; round++) {
      const statuses = await Promise.all(edges.map((edge) => edge.decideTimes(6)))
      for (const [i, some] of statuses.entries()) totals[i]! += admitted(some)
      await redis.command('FLUSHALL')
    }
    expect(totals).toEqual([LIMIT, LIMIT])
    for (const edge of edges) expect((await answersBy(edge)).failureMode).toBe(0)
  })

  test('what one instance has spent, it tells a Redis that has forgotten, and the others hear of it', async () => {
    const redis = await runningRedis()
    const [one, other] = await twoSharing(redis.url, { bundle: TEN })
    await one.decideTimes(6)
    await redis.command('FLUSHALL')
    expect(remaining(await one.decide())).toBe(3)
    expect(remaining(await other.decide())).toBe(2)
  })

  test('its scripts: it goes on without an error, and nothing is charged twice', async () => {
    const redis = await runningRedis()
    const edges = await twoSharing(redis.url, { bundle: TEN })
    const statuses: number[] = []
    for (let i = 0; i < 12; i++) {
      await redis.command('SCRIPT', 'FLUSH')
      statuses.push((await edges[i % 2]!.decide()).status)
    }
    expect(admitted(statuses)).toBe(LIMIT)
    for (const edge of edges) {
      expect(await answersBy(edge)).toEqual({ redis: 6, failureMode: 0 })
      for (const kind of ['timeout', 'connection', 'reply']) expect(await edge.metric(`edge_redis_errors_total{kind="${kind}"}`)).toBe(0)
    }
  })
})

/** Doubles, as a bucket has them: level, when that was true, size, rate. */
function packed(...numbers: readonly number[]): string {
  return `return redis.call('SET', KEYS[1], struct.pack('<${'d'.repeat(numbers.length)}', ${numbers.map((n) => (Number.isNaN(n) ? '0/0' : n)).join()}))`
}

const DAMAGES: Readonly<Record<string, string>> = {
  'is too short': "return redis.call('SET', KEYS[1], 'edge')",
  'has a level that is no number': packed(Number.NaN, 0, LIMIT, 1),
  'was true at a time that is no number': packed(1, Number.NaN, LIMIT, 1),
  'has no rate': packed(1, 0, LIMIT, 0),
  'is in debt since long ago': packed(-1e100, 1, LIMIT, 1),
  'is a text': "return redis.call('SET', KEYS[1], string.rep('edge', 16))",
}

describeWithRedis('a record of one caller', () => {
  test.for(Object.entries(DAMAGES))('that %s counts as lost, and nobody falls back for it', async ([, damage]) => {
    const redis = await runningRedis()
    const rules = [bucketRule('ten', ['header:caller'], LIMIT, HARDLY_ANY)]
    const env = { EDGE_REDIS_FAILURE_MODE: 'closed' }
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env })
    const ask = (caller: string) => edge.decide({ fields: [['caller', caller]] })
    await ask('one')
    const [key] = await countersIn(redis)
    await redis.command('EVAL', damage, 1, key!)
    expect(remaining(await ask('one'))).toBe(LIMIT - 2)
    expect(remaining(await ask('other'))).toBe(LIMIT - 1)
    expect(await answersBy(edge)).toEqual({ redis: 3, failureMode: 0 })
  })
})

describeWithRedis('an instance of which many ask at once', () => {
  test('does not admit more than the limit when Redis forgets while answers are on their way', async () => {
    const { redis, gate, edge } = await behindGate('local')
    gate.hold('answers')
    const first = Array.from({ length: LIMIT }, () => edge.decide())
    await untilTaken(redis, LIMIT)
    await redis.command('FLUSHALL')
    const second = Array.from({ length: LIMIT }, () => edge.decide())
    await untilTaken(redis, 2 * LIMIT)
    gate.release()
    expect(admitted(await Promise.all([...first, ...second]))).toBe(LIMIT)
  })

  test('does not admit more than the limit when the circuit opens while answers are on their way', async () => {
    const { redis, gate, edge } = await behindGate('local', LONG_MS)
    gate.hold('answers')
    const first = edge.decide()
    await sleep(LONG_MS / 2)
    const second = Array.from({ length: LIMIT - 1 }, () => edge.decide())
    await untilTaken(redis, LIMIT)
    const statuses = [(await first).status] // the circuit is open
    statuses.push(...(await edge.decideTimes(LIMIT)))
    gate.release() // in time for the others
    statuses.push(...(await Promise.all(second)).map(({ status }) => status))
    expect(admitted(statuses)).toBe(LIMIT)
  })
})

describeWithRedis('a fleet whose Redis forgets while an instance waits for answers', () => {
  test('does not admit again what is given back to a bucket that has forgotten it', async () => {
    const { redis, gate, edge } = await behindGate('local', LONG_MS)
    const [second, third] = await twoSharing(redis.url, { bundle: TEN })
    gate.hold('answers')
    const first = edge.decide()
    await sleep(LONG_MS / 2)
    const granted = Array.from({ length: LIMIT - 1 }, () => edge.decide())
    await untilTaken(redis, LIMIT)
    // The first was too late, so the circuit is open: the own count hands out all it has, and has no room for the others.
    expect(admitted([await first, ...(await edge.decideTimes(LIMIT))])).toBe(LIMIT)
    await redis.command('FLUSHALL')
    expect(admitted(await second.decideTimes(LIMIT))).toBe(LIMIT)
    gate.release()
    expect(admitted(await Promise.all(granted))).toBe(0)
    // The answer to a later call on that connection: by then, what was given back is there.
    await until(() => hasRedis(edge))
    await edge.decide()
    expect(admitted(await third.decideTimes(LIMIT))).toBe(0)
  })
})

const DISTURBANCES: readonly ((redis: RedisServer) => Promise<unknown>)[] = [
  (redis) => redis.command('FLUSHALL'),
  (redis) => redis.command('SCRIPT', 'FLUSH'),
  (redis) => redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
  (redis) => redis.restart('lost'),
  (redis) => redis.restart('kept'),
  (redis) => redis.command('CONFIG', 'SET', 'maxmemory', 1),
  (redis) => redis.command('CONFIG', 'SET', 'maxmemory', 0),
  async (redis) => {
    redis.pause()
    await sleep(2 * SHORT_MS)
    redis.resume()
  },
]

describeWithRedis('whatever happens to Redis', () => {
  test('local: all are answered, and over no window does an instance admit more than the limit and what comes back in a timeout', async () => {
    const redis = await runningRedis()
    const [burst, perSecond] = [20, 2]
    const rules = [bucketRule('r', [], burst, perSecond)]
    const env = { EDGE_REDIS_TIMEOUT_MS: String(SHORT_MS) }
    const edges = await twoSharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env })
    const steady = steadyRequests(edges)
    await until(() => (steady.statuses.get(429) ?? 0) > 0)
    for (const disturb of DISTURBANCES) {
      await disturb(redis)
      await sleep(100)
    }
    await untilAnsweredByRedis(edges)
    await steady.stop()
    expect([...steady.statuses.keys()].sort()).toEqual([200, 429])
    for (const { all } of steady.byEdge)
      expect(worstWindow(all, perSecond / 1000).burst).toBeLessThan(burst + (perSecond / 1000) * SHORT_MS + 0.01)
  })
})

/** What happens to the connection with the next question: the test's, or a probe if that comes first because the machine is busy. */
const CUTS: Readonly<Record<string, (gate: TcpGate) => Promise<void>>> = {
  'in the middle of the reply': (gate) => gate.cutAfterAnswerBytes(3),
  'before the reply': (gate) => gate.cutAfterAnswerBytes(0),
  'before Redis has heard the question': (gate) => gate.cutBeforeNextRequest(),
}

for (const [when, light] of Object.entries(CUTS)) {
  describeWithRedis(`a connection that is cut ${when}`, () => {
    test('local: the take counts as taken, is not sent again, and the unknown outcome is counted', async () => {
      const { redis, gate, edge } = await behindGate('local')
      const other = await sharing(redis.url, { bundle: TEN })
      expect(remaining(await edge.decide())).toBe(9)
      await cutOnce(edge, gate, light, 200)
      // This instance has counted two, and Redis the first one alone where it never heard of the second.
      const left = (await levelIn(redis)) - 1
      expect([7, 8]).toContain(left)
      expect(remaining(await other.decide())).toBe(left)
      expect(admitted(await edge.decideTimes(LIMIT))).toBe(left)
      expect(admitted(await other.decideTimes(2))).toBe(0)
    })

    test('closed: nobody is let through for it, and it is gone at worst', async () => {
      const { redis, gate, edge } = await behindGate('closed')
      const other = await sharing(redis.url, { bundle: TEN })
      expect(remaining(await edge.decide())).toBe(9)
      await cutOnce(edge, gate, light, 503)
      const left = await levelIn(redis)
      expect([8, 9]).toContain(left)
      expect(admitted(await other.decideTimes(LIMIT))).toBe(left)
    })
  })
}

describeWithRedis('a Redis that is slow', () => {
  test('but in time: exact numbers, only later', async () => {
    const redis = await runningRedis()
    const gate = await gateTo(redis.port)
    const edges = await twoSharing(`redis://${gate.address}`, { bundle: TEN })
    gate.delayMs = 20
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => edges[i % 2]!.decide()))
    expect(
      answers
        .filter(({ status }) => status === 200)
        .map(remaining)
        .sort(),
    ).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20)
    for (const edge of edges) {
      expect(await answersBy(edge)).toEqual({ redis: 15, failureMode: 0 })
      // The first is of the start, when the gate was fast.
      expect(await edge.metric('edge_redis_round_trip_seconds_bucket{le="0.01"}')).toBeLessThan(2)
    }
  })
})

async function behindGate(mode: string, timeoutMs?: number): Promise<{ redis: RedisServer; gate: TcpGate; edge: Edge }> {
  const redis = await runningRedis()
  const gate = await gateTo(redis.port)
  const env = { EDGE_REDIS_FAILURE_MODE: mode, ...(timeoutMs !== undefined && { EDGE_REDIS_TIMEOUT_MS: String(timeoutMs) }) }
  const edge = await sharing(`redis://${gate.address}`, { bundle: TEN, env })
  await redis.resetCalls()
  return { redis, gate, edge }
}

/** Redis has done so many scripts. */
async function untilTaken(redis: RedisServer, count: number): Promise<void> {
  await until(async () => ((await redis.calls()).get('evalsha') ?? 0) >= count)
}

/** What the one bucket has left there. */
async function levelIn(redis: RedisServer): Promise<number> {
  const [key] = await countersIn(redis)
  return Math.floor((await storedBucket(redis, key!)).level)
}

/** One question with an unknown outcome, and the way back to normal. */
async function cutOnce(edge: Edge, gate: TcpGate, light: (gate: TcpGate) => Promise<void>, status: number): Promise<void> {
  const blown = light(gate)
  expect((await edge.decide()).status).toBe(status)
  await blown
  expect(await edge.metric('edge_redis_doubts_total{what="take"}')).toBe(1)
  await until(() => hasRedis(edge))
}
