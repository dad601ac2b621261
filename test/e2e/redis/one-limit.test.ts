import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, jwt, llmRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxyEnv } from '../../support/proxy/proxy.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted, answersBy, HARDLY_ANY, remaining, sharing, twoSharing } from '../../support/redis/sharing-edge.ts'
import { countersIn } from '../../support/redis/stored-counters.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const TEN = bundle(1, policy('p', { rules: [bucketRule('ten', ['header:x-caller'], 10, HARDLY_ANY)] }))
const ALICE = { fields: [['X-Caller', 'alice']] } as const

describeWithRedis('one limit for several instances', () => {
  const shared = redisOfSuite()

  test('two instances that are asked at once admit it together, and each answer tells what is left for all', async () => {
    const redis = shared()
    const edges = await twoSharing(redis.url, { bundle: TEN })
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => edges[i % 2]!.decide(ALICE)))

    const allowed = answers.filter(({ status }) => status === 200)
    expect(allowed.map(remaining).sort((a, b) => b - a)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    const rejected = answers.filter(({ status }) => status === 429)
    expect(rejected).toHaveLength(20)
    for (const { headers } of rejected) {
      expect(headers).toMatchObject({ 'x-edge-reason': 'token_bucket_exceeded', 'ratelimit-limit': '10', 'ratelimit-remaining': '0' })
      expect(headers['retry-after']).toBe(headers['ratelimit-reset'])
    }
    for (const edge of edges) expect(await answersBy(edge)).toEqual({ redis: 15, failureMode: 0 })
    // Another caller has a limit of their own.
    expect(remaining(await edges[0].decide({ fields: [['X-Caller', 'bob']] }))).toBe(9)
  })

  test('two proxies let as many requests through to the backend as the limit says', async () => {
    const redis = shared()
    const backend = await HttpBackend.start()
    const edges = await twoSharing(redis.url, { bundle: TEN, env: proxyEnv(backend.url) })
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => ask(edges[i % 2]!.port, 'GET', '/', ALICE.fields)))
    expect([admitted(answers), answers.filter(({ status }) => status === 429).length, backend.seen.length]).toEqual([10, 20, 10])
  })
})

describeWithRedis('what Redis gets to see', () => {
  const shared = redisOfSuite()

  test('keys are the prefix and 32 hex digits, and nothing that a caller sent is in what is asked or kept', async () => {
    const redis = shared()
    const rules = [
      bucketRule('by-key', ['header:x-api-key'], 10, HARDLY_ANY),
      bucketRule('by-claim', ['jwt:sub'], 10, HARDLY_ANY),
      bucketRule('by-address', ['ip:address'], 10, HARDLY_ANY),
      llmRule('tokens', ['jwt:org', 'header:x-api-key'], {
        tokens_per_minute: 1,
        burst_tokens: 5000,
        tokens_per_day: 9000,
        max_completion_tokens: 10,
      }),
    ]
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('secret-policy', { rules })) })
    const monitor = await monitored(redis)
    const token = jwt({ sub: 'mallory@example.com', org: 'acme-corp' })
    const fields: [string, string][] = [
      ['X-Api-Key', 'sk-live-quixotic'],
      ['Authorization', `Bearer ${token}`],
      ['X-Forwarded-For', '203.0.113.77'],
    ]
    expect((await edge.decide({ fields })).headers['ratelimit-limit']).toBe('10')

    const keys = await countersIn(redis)
    expect(keys).toHaveLength(5)
    for (const key of keys) expect(key).toMatch(/^edge:[0-9a-f]{32}$/)
    const dumps = await Promise.all(keys.map((key) => redis.command('DUMP', key)))
    await until(() => keys.every((key) => monitor().includes(key)))
    const seen = [monitor(), ...dumps, ...keys].join('\n')
    expect(seen).toMatch(/"evalsha"/i)
    for (const secret of ['sk-live', 'quixotic', 'mallory', 'acme', '203.0.113', token, 'secret-policy', 'by-key']) {
      expect(seen).not.toContain(secret)
      expect(seen).not.toContain(Buffer.from(secret).toString('hex'))
    }
  })
})

describeWithRedis('keys expire', () => {
  const shared = redisOfSuite()

  test("a day's key at the UTC midnight that ends it", async () => {
    const redis = shared()
    const rule = llmRule('r', [], { tokens_per_day: 1000, max_completion_tokens: 10 })
    const edge = await sharing(redis.url, { bundle: bundle(1, policy('p', { rules: [rule] })) })
    expect((await edge.decide()).status).toBe(200)
    const [key] = await countersIn(redis)
    const [day, begun, ...others] = (await redis.command('HKEYS', key!)) as readonly string[]
    expect([begun, ...others]).toEqual([`-${day}`])
    const midnightMs = (Number(day) + 1) * DAY_MS
    const expiresMs = (await redis.command('PEXPIRETIME', key!)) as number
    expect(expiresMs).toBeGreaterThanOrEqual(midnightMs)
    expect(expiresMs).toBeLessThan(midnightMs + MINUTE_MS)
  })
})

/** All that Redis was asked to do since now, scripts' own commands too. */
async function monitored(redis: RedisServer): Promise<() => string> {
  let text = ''
  const socket = connect(join(redis.directory, 'socket'), () => socket.write('MONITOR\r\n'))
  onTestFinished(() => void socket.destroy())
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  await until(() => text.includes('+OK'))
  return () => text
}
