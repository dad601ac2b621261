import { expect, test } from 'vitest'
import { readCookie, SECRET, SECRET_ENV } from '../conformance/debug-login.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { askWith, login } from '../support/admin/session.ts'
import { bucketRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../support/bundles/bundles.ts'
import { type RedisServer, redisOfSuite } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { sharing } from '../support/redis/sharing-edge.ts'
import { ask } from '../support/service/http.ts'
import { until } from '../support/until.ts'
import { expectStable } from './stable-lines.ts'

const RULES = [
  bucketRule('bucket', ['header:x-key'], 10, 1e-6),
  windowRule('window', ['header:x-key'], { limit: 10, period: '1d' }),
  concurrencyRule('flight', ['header:x-key'], 3),
  llmRule('tokens', ['header:x-key'], { tokens_per_minute: 1000, tokens_per_day: 1000, max_completion_tokens: 10 }),
]
const KEY = ['X-Key', 'acme'] as const
const CHANGE = { policy: 'p0', rule: 'bucket', values: { 'header:x-key': 'acme' }, reason: 'a test' }

describeWithRedis('what a fleet keeps in Redis', () => {
  const shared = redisOfSuite()

  /** A counter's name follows from its rule and its caller alone: instances of two versions that named it differently would each grant the limit. */
  test('has the names and kinds that other versions know', async () => {
    const redis = shared()
    const env = { ...ADMIN_ENV, ...SECRET_ENV, EDGE_RESERVATION_SECRET: 'a-secret-of-reservations-in-32-characters' }
    const edge = await sharing(redis.url, { bundle: bundle(1, ...RULES.map((rule, i) => policy(`p${i}`, { rules: [rule] }))), env })
    const reserved = await edge.decide({ uri: '/v1/chat/completions', fields: [KEY, ['X-Edge-Settle', '1']] })
    expect(reserved.status).toBe(200)
    const counters = await linesOf(redis)
    await ask(edge.port, 'POST', '/v1/settle', [], JSON.stringify({ reservation: reserved.headers['x-edge-reservation'] }))
    await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...CHANGE, multiply: 2, until: '2h' } })
    await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: CHANGE })
    await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: { team: 'search' }, expires_at: '1d', reason: 'a test' } })
    const { cookie, csrf } = await login(edge.adminPort)
    await askWith(cookie, edge.adminPort, 'DELETE', 'session', { 'X-Edge-CSRF': csrf })
    const session = readCookie(await ask(edge.adminPort, 'POST', '/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]]))
    await ask(edge.adminPort, 'POST', '/v1/debug/logout', [['Cookie', session.pair]])
    await until(async () => (await linesOf(redis)).filter((line) => line.includes('logouts')).length === 2)
    expect(counters.length).toBeGreaterThan(RULES.length)
    expectStable('redis-keys', [...counters, ...(await linesOf(redis))])
  })
})

/** Every key with its kind. The names of an instance, of its run, of a worker and of an hour are those of this moment. */
async function linesOf(redis: RedisServer): Promise<string[]> {
  const keys = (await redis.command('KEYS', '*')) as string[]
  const lines = keys.map(async (key) => {
    const name = key.replace(/(?<=:settled:).*$/, 'INSTANCE:RUN:WORKER:HOUR').replace(/(?<=:corrections:).*$/, 'INSTANCE')
    return `${name} ${await redis.command('TYPE', key)}`
  })
  return Promise.all(lines)
}
