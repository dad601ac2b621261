import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { callers, names } from '../../support/admin/callers.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { running } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { loadOnAll, servingOn } from '../../support/workers/workers.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001
const KEY = 'header:x-k'

const BUNDLE = bundle(
  1,
  policy('p', { rules: [bucketRule('r', [KEY], 4, HARDLY_ANY), bucketRule('pair', [KEY, 'header:x-o'], 9, HARDLY_ANY)] }),
)

describe('POST callers of several workers', () => {
  test('adds up what all of them rejected, whichever is asked', async () => {
    const cli = await servingOn(2, BUNDLE, ADMIN_ENV)
    const load = await loadOnAll(cli.port, [...original('/p'), ['X-K', 'alice']], 8)
    await load.stop()
    const edge = { adminPort: adminPortOf(cli) }
    // A worker that is busy for a second is left out.
    await until(async () => (await callers(edge, { value: 'alice' })).top!.complete)
    for (let i = 0; i < 4; i++) {
      const { rules, top } = await callers(edge, { value: 'alice' })
      expect([names(rules), rules[0]!.counters![0]!.remaining]).toEqual([['p/r'], 0])
      expect(top!.rejected).toMatchObject([{ policy: 'p', rule: 'r', count: load.count(429), hour_count: load.count(429) }])
    }
  })
})

describeWithRedis('POST callers on Redis', () => {
  test.each(['exact', 'leased'])('has what the fleet left the caller, and all but that while Redis is unreachable (%s)', async (mode) => {
    const redis = await runningRedis()
    const env = { ...ADMIN_ENV, EDGE_REDIS_MODE: mode, EDGE_REDIS_FAILURE_MODE: 'closed' }
    const [one, other] = await twoSharing(redis.url, { bundle: BUNDLE, env })
    const fields = [['X-K', 'alice'] as const]
    await one.decideTimes(1, { fields })
    await other.decideTimes(6, { fields })
    const asked = { values: { [KEY]: 'alice' } }
    const [here, there] = [await callers(one, asked), await callers(other, asked)]
    for (const { rules, counters_known: isKnown, incomplete_rules: incomplete } of [here, there]) {
      expect(rules).toMatchObject([{ rule: 'r', counted: true, counters: [{ remaining: 0, limit: 4 }] }])
      expect(isKnown).toBe(true)
      expect(incomplete).toMatchObject([{ rule: 'pair', missing: ['header:x-o'] }])
    }
    expect([here.top!.rejected.length, there.top!.rejected.length]).toEqual([0, 1])
    await redis.stop()
    const meanwhile = await callers(other, asked)
    expect(meanwhile).toMatchObject({ rules: [{ rule: 'r', counters: null, counted: false }], counters_known: false })
    expect(meanwhile.top!.rejected).toEqual(there.top!.rejected)
  })
})

const MANY = Array.from({ length: 2000 }, (_, i) =>
  policy(`p${i}`, { selector: { pathPrefix: `/p${i}` }, rules: Array.from({ length: 10 }, (_, r) => bucketRule(`r${r}`, [KEY], 4)) }),
)

test('of a bundle with 20,000 rules for the caller, all are counted and 500 are looked at', async () => {
  const cli = await servingOn(1, bundle(1, ...MANY), { ...ADMIN_ENV, EDGE_STORE_SIZE: '64m' })
  const found = await callers({ adminPort: adminPortOf(cli) }, { value: 'alice' })
  expect([found.rules, found.rules_tried, found.rules_left_out]).toEqual([[], 500, 19_500])
})

test('clients that leave are not searched for, and one that only half-closes is: the next one is answered, and nothing has failed', async () => {
  const edge = await running({ bundle: bundle(1, ...MANY), env: { ...ADMIN_ENV, EDGE_STORE_SIZE: '64m' } })
  const body = JSON.stringify({ value: 'alice' })
  const fields = `Host: edge\r\nAuthorization: Bearer ${ADMIN_TOKEN}\r\nContent-Length: ${body.length}\r\n`
  const head = `POST /admin/v1/callers HTTP/1.1\r\n${fields}Connection: close\r\n\r\n`
  // It ends its side and waits.
  const waiting = connect(edge.adminPort, '127.0.0.1').end(`${head}${body}`)
  const received = text(waiting)
  // More than may wait at a time. Each leaves as soon as its request is sent, so that none of them keeps its place for long.
  for (let i = 0; i < 100; i++) {
    const socket = connect(edge.adminPort, '127.0.0.1')
    await new Promise<void>((resolve) => socket.end(`${head}${body}`, resolve))
    socket.destroy()
  }
  expect(await received).toMatch(/^(HTTP\/1.1 100 Continue\r\n\r\n)*HTTP\/1.1 200 OK\r\n/)
  await until(async () => {
    const { status, json } = await askAdmin(edge.adminPort, 'POST', 'callers', { body: { value: 'alice' } })
    expect(status === 200 || json.error.code === 'too_many_readers').toBe(true)
    return status === 200
  })
  expect(edge.logged('admin_failed')).toEqual([])
})
