import { describe, expect, test } from 'vitest'
import { PERIOD_MS } from '../../../src/top/rejected-callers.ts'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { asks, top } from '../../support/admin/top.ts'
import { blockRule, bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { rateLimitService, shouldRateLimit } from '../../support/grpc/rate-limit.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { loadOnAll, servingOn } from '../../support/workers/workers.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

const KEYED = bundle(
  1,
  policy('p', { selector: { pathPrefix: '/p' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('q', {
    selector: { pathPrefix: '/q' },
    rules: [bucketRule('r', ['header:x-k'], 2, HARDLY_ANY), bucketRule('wide', [], 100, HARDLY_ANY)],
  }),
)

describe('GET top of several workers', () => {
  test('adds up what all of them rejected, whichever is asked', async () => {
    const cli = await servingOn(2, KEYED, ADMIN_ENV)
    const load = await loadOnAll(cli.port, [...original('/p'), ['X-K', 'alice']], 8)
    await load.stop()
    const top = async () => (await askAdmin(adminPortOf(cli), 'GET', 'top')).json
    for (let i = 0; i < 6; i++) {
      let json = await top()
      // A worker that is busy for a second is left out.
      await until(async () => {
        json = await top()
        return json.complete
      })
      expect(json.rejected).toMatchObject([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, count: load.count(429) }])
      expect(json.nearest).toMatchObject([
        { policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, kind: 'bucket', remaining: 0, limit: 4 },
      ])
    }
    expect(load.count(200)).toBe(4)
  })

  test('responds while one of them dies, with what the others know', async () => {
    const mortal = await mortalEdge(2, { bundle: KEYED, env: ADMIN_ENV })
    const load = await loadOnAll(mortal.port, [...original('/p'), ['X-K', 'alice']], 8)
    const asked = Promise.allSettled(Array.from({ length: 20 }, () => askAdmin(mortal.edge.adminPort, 'GET', 'top')))
    mortal.age()
    await mortal.host.terminate(2)
    const responses = (await asked).flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200))
    await mortal.untilReplaced()
    await load.stop()
    let { rejected, complete } = (await askAdmin(mortal.edge.adminPort, 'GET', 'top')).json
    // A worker that is busy for a second is left out.
    await until(async () => {
      ;({ rejected, complete } = (await askAdmin(mortal.edge.adminPort, 'GET', 'top')).json)
      return rejected.length > 0
    })
    expect(complete).toBe(false)
    expect(rejected).toMatchObject([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' } }])
    expect(rejected[0].count).toBeLessThanOrEqual(load.count(429) + load.errors.length)
  })
})

describe('GET top', () => {
  test('knows the overrides in force: what they leave a caller, and of which limit', async () => {
    const rules = [bucketRule('r', ['bearer'], 2, HARDLY_ANY)]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
    await edge.decideTimes(3, { fields: [['Authorization', 'Bearer alice']] })
    const nearest = async () => (await top(edge, '?policy=p&rule=r')).nearest
    expect(await nearest()).toMatchObject([{ kind: 'bucket', remaining: 0, limit: 2 }])
    const override = { policy: 'p', rule: 'r', values: { bearer: 'alice' }, until: '2h', reason: 'a test' }
    const set = await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...override, set: { burst: 9 } } })
    expect(await nearest()).toMatchObject([{ kind: 'bucket', remaining: 7, limit: 9 }])
    const unlimited = await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...override, unlimited: true, replace: set.json.id } })
    expect(await nearest()).toEqual([])
    await askAdmin(edge.adminPort, 'DELETE', `overrides/${unlimited.json.id}?reason=over`)
    expect(await nearest()).toMatchObject([{ kind: 'bucket', remaining: 0, limit: 2 }])
  })

  test('lists those of a policy, or of a rule, and as many as asked for', async () => {
    const edge = await running({ bundle: KEYED, env: ADMIN_ENV })
    await asks(edge, 4 + 3, 'alice')
    await asks(edge, 2 + 1, 'alice', '/q')
    await asks(edge, 2 + 2, 'bob', '/q')
    const counts = async (query: string) => {
      const { rejected, nearest } = await top(edge, query)
      return [rejected.map(({ count }: { count: number }) => count), nearest.length]
    }
    expect(await counts('')).toEqual([[3, 2, 1], 4])
    expect(await counts('?policy=q')).toEqual([[2, 1], 3])
    expect(await counts('?policy=q&rule=r')).toEqual([[2, 1], 2])
    expect(await counts('?policy=q&rule=wide')).toEqual([[], 1])
    expect(await counts('?policy=q&limit=1')).toEqual([[2], 1])
  })

  test('is empty before the first bundle, and 404 where EDGE_TOP is off', async () => {
    const [none, off] = [await running({ env: ADMIN_ENV }), await running({ bundle: KEYED, env: { ...ADMIN_ENV, EDGE_TOP: 'off' } })]
    expect(await top(none)).toMatchObject({ max_error: 0, rejected: [], nearest: [] })
    await asks(off, 6, 'alice')
    expect(await askAdmin(off.adminPort, 'GET', 'top')).toMatchObject({ status: 404, json: { error: { code: 'top_off' } } })
  })

  test('shows credentials as digests, and other values as JSON text, cut where they are long', async () => {
    const rules = [bucketRule('r', ['bearer', 'cookie:sid', 'header:authorization', 'header:x-k'], 1, HARDLY_ANY)]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
    const odd = '<script>"\\é</script>'
    const long = 'x'.repeat(8000)
    for (const value of [odd, `${long}a`, `${long}b`]) {
      const fields = [
        ['Authorization', 'Bearer secret-token'],
        ['Cookie', 'sid=secret-cookie'],
        ['X-K', Buffer.from(value).toString('latin1')],
      ] as const
      await edge.decideTimes(2, { fields })
    }
    const json = await top(edge)
    for (const list of [json.rejected, json.nearest]) {
      expect(list).toHaveLength(3)
      for (const { values } of list) {
        for (const key of ['bearer', 'cookie:sid', 'header:authorization']) expect(values[key]).toMatch(/^[0-9a-f]{16}$/)
        expect(values['bearer']).not.toBe(values['cookie:sid'])
      }
    }
    const shown = json.rejected.map(({ values }: { values: Record<string, string> }) => values['header:x-k'])
    expect(shown.sort()).toEqual([Buffer.from(odd).toString('latin1'), `${'x'.repeat(127)}…`, `${'x'.repeat(127)}…`])
    const told = JSON.stringify([json, edge.log])
    expect(told).not.toMatch(/secret-/)
    expect(JSON.stringify(edge.log)).not.toMatch(/script|xxxx/)
  })

  test('counts blocks and rejected calls of the rate limit service, and no would-rejects', async () => {
    const edge = await running({
      bundle: bundle(
        1,
        policy('b', { rules: [blockRule('acme', { 'header:x-org': 'acme' })] }),
        policy('s', { mode: 'shadow', rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
        policy('d', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 1, HARDLY_ANY)] }),
      ),
      env: { ...ADMIN_ENV, EDGE_GRPC_PORT: '0' },
    })
    await edge.decideTimes(3, { fields: [['X-Org', 'acme']] })
    expect(await asks(edge, 3, 'alice')).toEqual([200, 200, 200])
    const client = rateLimitService(edge.grpcPort)
    for (let i = 0; i < 3; i++) await shouldRateLimit(client, ['user=x', 'user=y', 'user=x'])
    const { rejected, nearest } = await top(edge)
    expect(rejected).toMatchObject([
      { policy: 'b', rule: 'acme', values: {}, count: 3 },
      { policy: 'd', rule: 'r', values: { 'descriptor:user': 'x' }, count: 3 },
    ])
    // What a caller of a shadow policy has left is known.
    expect(nearest.at(-1)).toMatchObject({
      policy: 's',
      rule: 'r',
      mode: 'shadow',
      values: { 'header:x-k': 'alice' },
      remaining: 0,
      limit: 1,
    })
  })

  test('counts callers that an override blocks, and shows limits as overrides make them', async () => {
    const edge = await running({
      bundle: bundle(
        1,
        policy('p', { rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
        policy('d', { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:user'], 4, HARDLY_ANY)] }),
      ),
      env: { ...ADMIN_ENV, EDGE_GRPC_PORT: '0' },
    })
    const override = async (id: string, values: object, change: object) => {
      const body = { policy: id, rule: 'r', values, ...change, until: '1h', reason: 'test' }
      expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body })).status).toBe(201)
    }
    await override('p', { 'header:x-k': 'alice' }, { multiply: 3 })
    await override('p', { 'header:x-k': 'mallory' }, { block: true })
    await override('d', { 'descriptor:user': 'mallory' }, { block: true })
    await asks(edge, 11, 'alice')
    expect(await asks(edge, 2, 'mallory')).toEqual([403, 403])
    await shouldRateLimit(rateLimitService(edge.grpcPort), ['user=x', 'user=mallory'])
    const { rejected, nearest } = await top(edge)
    expect(rejected).toMatchObject([
      { policy: 'p', rule: 'r', values: { 'header:x-k': 'mallory' }, count: 2 },
      { policy: 'd', rule: 'r', values: { 'descriptor:user': 'mallory' }, count: 1 },
    ])
    expect(nearest).toMatchObject([{ policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, kind: 'bucket', remaining: 1, limit: 12 }])
    expect(await metric(edge.adminPort, 'edge_rejects_total{policy="p",rule="r",reason="blocked"}')).toBe(2)
  })

  test('keeps rejects over a change of the bundle, and lists those of the last minutes first', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: KEYED, env: ADMIN_ENV, clock })
    await asks(edge, 6, 'alice')
    await edge.publish(bundle(2, policy('p', { rules: [bucketRule('other', ['header:x-k'], 4)] })))
    const { rejected, since } = await top(edge)
    expect(rejected).toMatchObject([{ policy: 'p', rule: 'r', count: 2 }])
    clock.advance(PERIOD_MS)
    await asks(edge, 5, 'bob')
    expect((await top(edge)).rejected).toMatchObject([
      { rule: 'r', count: 2 },
      { rule: 'other', count: 1 },
    ])
    clock.advance(PERIOD_MS)
    const later = await top(edge)
    expect(later.rejected).toMatchObject([
      { rule: 'other', count: 1 },
      { rule: 'r', count: 0, hour_count: 2 },
    ])
    expect(Date.parse(later.since)).toBeGreaterThan(Date.parse(since))
    clock.advance(12 * PERIOD_MS)
    expect(await top(edge)).toMatchObject({ rejected: [], nearest: [] })
  })
})

describeWithRedis('GET top of an instance on Redis', () => {
  test.each(['exact', 'leased'])('has the callers of this instance, and what the fleet left them (%s)', async (mode) => {
    const redis = await runningRedis()
    const env = { ...ADMIN_ENV, EDGE_REDIS_MODE: mode }
    const rules = [bucketRule('r', ['bearer'], 6, HARDLY_ANY)]
    const [one, other] = await twoSharing(redis.url, { bundle: bundle(1, policy('p', { rules })), env })
    const alice = { fields: [['Authorization', 'Bearer alice']] } as const
    await one.decideTimes(1, alice)
    await other.decideTimes(9, alice)
    const [here, there] = [await top(one), await top(other)]
    expect(here.rejected).toEqual([])
    expect(there.rejected).toMatchObject([{ policy: 'p', rule: 'r' }])
    for (const { nearest } of [here, there]) {
      expect(nearest).toMatchObject([
        { policy: 'p', rule: 'r', values: { bearer: expect.stringMatching(/^[0-9a-f]{16}$/) }, kind: 'bucket', remaining: 0, limit: 6 },
      ])
    }
    // Redis is not waited for.
    redis.pause()
    const meanwhile = await top(other)
    redis.resume()
    expect(meanwhile).toMatchObject({ rejected: there.rejected, nearest: [] })
  })
})
