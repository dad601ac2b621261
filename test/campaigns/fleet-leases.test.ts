import { beforeAll, beforeEach, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Caller } from '../support/fleet/caller.ts'
import { type Instance, runningFleet } from '../support/fleet/fleet.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { countersIn } from '../support/redis/stored-counters.ts'
import { metricsOf } from '../support/service/metrics.ts'
import type { Owner } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { decisionBytes, original, type WireAnswer } from '../support/service/wire.ts'
import { until } from '../support/until.ts'

/** Next to no refill: what is gone is gone for as long as a test runs. */
const NO_REFILL = 1e-6
const BURST = 300
const LEASED_NOW = 'edge_redis_leases'
const LEASED = 'edge_redis_leased_tokens_total{what="leased"}'
const GIVEN_BACK = 'edge_redis_leased_tokens_total{what="given_back"}'
const LOST = 'edge_redis_leased_tokens_total{what="lost"}'
const BY_LEASE = 'edge_redis_answers_total{by="lease"}'
const BY_REDIS = 'edge_redis_answers_total{by="redis"}'

describeWithRedis('an instance with long leases', () => {
  const { redis, instances } = leasingFleet(1, '60000')

  test('says what is left: its own lease and what the fleet has', async () => {
    const [instance] = instances()
    for (let used = 1; used <= 50; used++) {
      expect((await askAs('reader', instance!)).headers['ratelimit-remaining']).toBe(String(BURST - used))
    }
    expect((await metricsOf(instance!.port)).value(BY_LEASE)).toBeGreaterThan(0)
  })

  test('gives back what it has not used when it is told to end', async () => {
    const [instance] = instances()
    const { used } = await askUntilItHolds('leaver', instance!)
    expect(await levelIn(redis())).toBeLessThan(BURST - used - 0.5)
    expect(await instance!.stop()).toBe(0)
    expect(await levelIn(redis())).toBeCloseTo(BURST - used, 3)
    await instance!.start()
  })

  test('loses no more than it has leased when it is killed, and nobody gets more for it', async () => {
    const [instance] = instances()
    const { used, leased } = await askUntilItHolds('victim', instance!)
    await instance!.kill()
    const level = await levelIn(redis())
    expect(BURST - used - level).toBeGreaterThan(0.5)
    expect(BURST - used - level).toBeLessThanOrEqual(leased)
    await instance!.start()
    await allowsNoMoreThan(Math.floor(level), 'victim', instance!)
  })
})

describeWithRedis('two instances with leases that a busy machine does not outlast', () => {
  const { redis, instances } = leasingFleet(2, '5000')

  test('give back what they do not use, and the other gets it', async () => {
    const [idle, busy] = instances()
    const { used } = await askUntilItHolds('idler', idle!)
    await until(async () => (await metricsOf(idle!.port)).value(LEASED_NOW) === 0)
    await until(async () => (await levelIn(redis())) > BURST - used - 0.5)
    expect((await metricsOf(idle!.port)).value(LOST)).toBe(0)
    expect((await metricsOf(idle!.port)).value(GIVEN_BACK)).toBeGreaterThan(0)
    expect((await askAs('idler', busy!)).headers['ratelimit-remaining']).toBe(String(BURST - used - 1))
    await allowsNoMoreThan(BURST - used - 1, 'idler', busy!)
  })
})

describeWithRedis('two instances that nothing else keeps busy', () => {
  const { redis, instances } = leasingFleet(2, '5000')

  test('do not ask Redis for each of a flood of rejects', async () => {
    const callers = 4
    const startMs = performance.now()
    await redis().resetCalls()
    const answers = await flood(instances(), '/few', 400, callers)
    const calls = await redis().calls()
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    // A refusal is remembered for a lease's life; those who ask while it is renewed ask Redis too. Instances ask about other things as time goes by.
    const seconds = 1 + (performance.now() - startMs) / 1000
    const asked = (calls.get('evalsha') ?? 0) + (calls.get('eval') ?? 0)
    expect(asked).toBeLessThanOrEqual(answers.length / 20 + instances().length * (callers + 1) * seconds)
  })
})

describeWithRedis('two instances with short leases', () => {
  const { instances } = leasingFleet(2, '500')

  test('never say that more is left than the limit, nor less than nothing', async () => {
    for (const { status, headers } of await flood(instances(), '/fast', 400, 4)) {
      expect(headers['ratelimit-limit']).toBe('20')
      expect(headers['ratelimit-remaining']).toMatch(status === 200 ? /^(1?\d|20)$/ : /^0$/)
    }
  })

  test('ask Redis for every decision of an LLM rule, and share its budget to the token', async () => {
    // So that there could be an answer without Redis, as far as the plain limit goes.
    for (const instance of instances()) await askUntilItHolds('thinker', instance)
    const before = await Promise.all(instances().map(({ port }) => metricsOf(port)))
    const statuses: number[] = []
    for (let i = 0; i < 20; i++) {
      for (const instance of instances()) statuses.push((await askAs('thinker', instance, '/llm')).status)
    }
    const after = await Promise.all(instances().map(({ port }) => metricsOf(port)))
    expect(statuses).toEqual([...Array(10).fill(200), ...Array(30).fill(429)])
    expect(after.map((metrics, i) => metrics.value(BY_REDIS) - before[i]!.value(BY_REDIS))).toEqual([20, 20])
  })
})

/** A fleet for all tests of a suite, on a Redis that is empty when each of them begins. */
function leasingFleet(size: number, leaseMs: string): { redis: () => RedisServer; instances: () => readonly Instance[] } {
  const suite: Owner = thisSuite()
  let redis: RedisServer
  let instances: readonly Instance[]
  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    const env = {
      EDGE_REDIS_URL: redis.url,
      EDGE_REDIS_MODE: 'leased',
      EDGE_REDIS_LEASE_MS: leaseMs,
      EDGE_REDIS_FAILURE_MODE: 'closed',
      EDGE_REDIS_TIMEOUT_MS: '60000',
    }
    const policies = [
      policy('plain', { rules: [bucketRule('plain', ['header:x-caller'], BURST, NO_REFILL)] }),
      policy('few', { selector: { pathPrefix: '/few' }, rules: [bucketRule('few', [], 5, NO_REFILL)] }),
      policy('fast', { selector: { pathPrefix: '/fast' }, rules: [bucketRule('fast', [], 20, 100)] }),
      policy('llm', {
        selector: { pathPrefix: '/llm' },
        // A token a request, as with a plain rule. The minute's budget refills during a slow test, and the day's does not.
        rules: [llmRule('llm', [], { tokens_per_minute: 1, burst_tokens: 10, tokens_per_day: 10, max_completion_tokens: 1 })],
      }),
    ]
    ;({ instances } = await runningFleet({ size, bundle: bundle(1, ...policies), env }, suite))
  })
  beforeEach(() => redis.command('FLUSHALL'))
  return { redis: () => redis, instances: () => instances }
}

async function flood(instances: readonly Instance[], path: string, questions: number, callers: number): Promise<WireAnswer[]> {
  const bytes = decisionBytes(original(path))
  const answers: WireAnswer[] = []
  const lanes = instances.flatMap(({ port }) => Array.from({ length: callers }, () => new Caller(port)))
  await Promise.all(
    lanes.map(async (caller) => {
      for (let i = 0; i < questions; i++) answers.push((await caller.ask(bytes))!)
      caller.close()
    }),
  )
  return answers
}

/** Returns how many were allowed until it had tokens ahead of need, and how many it has leased for that. */
async function askUntilItHolds(caller: string, instance: Instance): Promise<{ used: number; leased: number }> {
  const before = await metricsOf(instance.port)
  for (let used = 1; ; used++) {
    expect((await askAs(caller, instance)).status).toBe(200)
    const now = await metricsOf(instance.port)
    const since = (series: string) => now.value(series) - before.value(series)
    const leased = since(LEASED)
    if (leased - since(BY_LEASE) - since(GIVEN_BACK) - since(LOST) >= 2) return { used, leased }
  }
}

/** All that is left can be had, and then nothing. */
async function allowsNoMoreThan(count: number, caller: string, instance: Instance): Promise<void> {
  for (let allowed = 0; allowed < count; ) if ((await askAs(caller, instance)).status === 200) allowed++
  for (let i = 0; i < 10; i++) expect((await askAs(caller, instance)).status).toBe(429)
}

function askAs(caller: string, instance: Instance, path = '/'): ReturnType<Instance['decide']> {
  return instance.decide([['X-Caller', caller]], path)
}

/** What Redis has left of the one bucket that it knows. */
async function levelIn(redis: RedisServer): Promise<number> {
  const keys = await countersIn(redis)
  expect(keys).toHaveLength(1)
  return Number(await redis.command('EVAL', "return tostring((struct.unpack('<d', redis.call('GET', KEYS[1]))))", 1, keys[0]!))
}
