import fc from 'fast-check'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/time/clock.ts'
import { runningCluster } from '../support/redis/redis-cluster.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { hasRedis, sharing } from '../support/redis/sharing-edge.ts'
import { gateTo } from '../support/redis/tcp-gate.ts'
import type { Edge } from '../support/service/edge.ts'
import type { Owner } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { budgetBundle, errorOf, left, reserve, reserved, settle, settleWith } from '../support/settle/settling.ts'
import { until } from '../support/until.ts'

const SECRET = { EDGE_RESERVATION_SECRET: 'the same for all instances of this fleet' }

/** Instances on one Redis that share a secret. */
function sharingSecret(size: number, url: string, bundle: object, owner: Owner, env = {}): Promise<Edge[]> {
  return Promise.all(Array.from({ length: size }, () => sharing(url, { bundle, env: { ...SECRET, ...env } }, owner)))
}

/** An instance shows no more than its own count has, which is corrected every second. */
function untilLeft(edge: Edge, tokens: number, caller = 'a'): Promise<void> {
  return until(async () => (await left(edge, caller)) === tokens)
}

describeWithRedis('instances that share Redis and EDGE_RESERVATION_SECRET', () => {
  test.concurrent('settle what another took, once, in the minute and in the day', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other, third] = (await sharingSecret(3, redis.url, budgetBundle(1000), owner)) as [Edge, Edge, Edge]
    const token = await reserved(taker)
    expect((await settle(other.port, token, { completion_tokens: 40 })).status).toBe(204)
    for (const edge of [taker, other, third]) {
      expect(errorOf(await settle(edge.port, token))).toMatchObject({ status: 409, code: 'already_settled' })
    }
    for (const edge of [third, other]) expect(await left(edge)).toBe(960)
    await untilLeft(taker, 960)
  })

  test.concurrent('of many attempts at all of them one is done', async (owner) => {
    const redis = await runningRedis({}, owner)
    const edges = await sharingSecret(3, redis.url, budgetBundle(10_000), owner)
    const tokens = await Promise.all(Array.from({ length: 8 }, (_, i) => reserved(edges[i % 3]!)))
    const statuses = await Promise.all(
      tokens.flatMap((token) => Array.from({ length: 9 }, async (_, i) => (await settle(edges[i % 3]!.port, token)).status)),
    )
    expect(statuses.filter((status) => status === 204)).toHaveLength(8)
    expect(statuses.filter((status) => status === 409)).toHaveLength(8 * 8)
    for (const edge of edges) await untilLeft(edge, 10_000)
  })

  test.concurrent('the taker is not stricter than the fleet, even at once after another has settled', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(100), owner)) as [Edge, Edge]
    for (let i = 0; i < 5; i++) {
      expect((await settle(other.port, await reserved(taker))).status).toBe(204)
    }
    expect(await left(taker)).toBe(100)
  })

  test.concurrent('the taker corrects its own count within a second or so: it is right when Redis goes away', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(1000), owner)) as [Edge, Edge]
    const tokens = [await reserved(taker), await reserved(taker), await reserved(taker)]
    for (const token of tokens) await settle(other.port, token, { prompt_tokens: 150 })
    const key = `edge:corrections:*`
    await until(async () => ((await redis.command('KEYS', key)) as string[]).length === 0)
    await redis.stop()
    await until(async () => !(await hasRedis(taker)))
    expect((await reserve(taker)).headers['ratelimit-remaining']).toBe('450')
  })

  test.concurrent('whatever is taken and settled where, nothing is rejected that fits, and all counts agree', async (owner) => {
    const redis = await runningRedis({}, owner)
    const edges = await sharingSecret(3, redis.url, budgetBundle(500), owner)
    const place = fc.nat(2)
    const step = fc.oneof(
      fc.record({ kind: fc.constant('take' as const), at: place }),
      fc.record({ kind: fc.constant('settle' as const), at: place, which: fc.nat(9), used: fc.integer({ min: 0, max: 150 }) }),
      fc.record({ kind: fc.constant('settle again' as const), at: place, which: fc.nat(99) }),
    )
    let runs = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }), async (steps) => {
        const caller = `caller ${runs++}`
        const open: string[] = []
        const done: string[] = []
        let used = 0
        for (const next of steps) {
          const edge = edges[next.at]!
          if (next.kind === 'take') {
            const fits = used + 100 * (open.length + 1) <= 500
            const { status, headers } = await reserve(edge, caller)
            expect(status).toBe(fits ? 200 : 429)
            if (fits) open.push(headers['x-edge-reservation']!)
          } else if (next.kind === 'settle' && open.length > 0) {
            const [token] = open.splice(next.which % open.length, 1) as [string]
            expect((await settle(edge.port, token, { completion_tokens: next.used })).status).toBe(204)
            used += next.used
            done.push(token)
          } else if (next.kind === 'settle again' && done.length > 0) {
            expect((await settle(edge.port, done[next.which % done.length]!)).status).toBe(409)
          }
        }
        for (const [i, token] of open.entries()) expect((await settle(edges[i % 3]!.port, token)).status).toBe(204)
        if (used <= 400) for (const edge of edges) await untilLeft(edge, 500 - used, caller)
      }),
      { numRuns: 25, endOnFailure: true },
    )
  })

  test.concurrent('while Redis is away, a settlement gets 503 and changes nothing: later it is done', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [edge] = (await sharingSecret(1, redis.url, budgetBundle(1000), owner)) as [Edge]
    const token = await reserved(edge)
    await redis.stop()
    await until(async () => !(await hasRedis(edge)))
    expect(errorOf(await settle(edge.port, token))).toMatchObject({ status: 503, code: 'store_unavailable', type: 'service_unavailable' })
    await redis.start()
    await until(async () => await hasRedis(edge))
    expect((await settle(edge.port, token)).status).toBe(204)
    expect((await settle(edge.port, token)).status).toBe(409)
  })

  test.concurrent('a settlement whose outcome is unknown gets 503, and is not done twice', async (owner) => {
    const redis = await runningRedis({}, owner)
    const gate = await gateTo(redis.port, owner)
    const env = { EDGE_REDIS_TIMEOUT_MS: '5000' }
    const [edge] = (await sharingSecret(1, `redis://${gate.address}`, budgetBundle(1000), owner, env)) as [Edge]
    // Redis knows the scripts from now on.
    await settle(edge.port, await reserved(edge))
    const token = await reserved(edge)
    gate.hold('answers')
    expect(errorOf(await settle(edge.port, token))).toMatchObject({ status: 503, code: 'settlement_unknown' })
    gate.release()
    await until(async () => await hasRedis(edge))
    expect((await settle(edge.port, token)).status).toBe(409)
  })

  test.concurrent('a settlement is not done twice in the own count of the taker, even if Redis has lost its data since', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [edge] = (await sharingSecret(1, redis.url, budgetBundle(1000), owner)) as [Edge]
    const [token] = [await reserved(edge), await reserved(edge)]
    expect((await settle(edge.port, token)).status).toBe(204)
    await redis.restart('lost')
    await until(async () => await hasRedis(edge))
    expect(errorOf(await settle(edge.port, token))).toMatchObject({ status: 409, code: 'already_settled' })
    expect(await left(edge)).toBe(900)
  })

  test.concurrent('a mark lasts for as long as its token, even if the clock of the taker is far ahead', async (owner) => {
    const redis = await runningRedis({}, owner)
    const aheadMs = 3 * 60 * 60 * 1000
    const clock = { nowMs: () => systemClock.nowMs(), wallMs: () => systemClock.wallMs() + aheadMs }
    const taker = await sharing(redis.url, { bundle: budgetBundle(1000), env: SECRET, clock }, owner)
    const [other] = (await sharingSecret(1, redis.url, budgetBundle(1000), owner)) as [Edge]
    const tokens = [await reserved(taker), await reserved(taker)]
    expect((await settle(other.port, tokens[0]!)).status).toBe(204)
    expect((await settle(taker.port, tokens[1]!)).status).toBe(204)
    for (const key of (await redis.command('KEYS', 'edge:settled:*')) as string[]) {
      expect(await redis.command('PTTL', key)).toBeGreaterThan(aheadMs + 2 * 60 * 60 * 1000)
    }
  })

  test.concurrent('a correction that cannot be read is skipped and counted, and those behind it are applied', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(1000), owner)) as [Edge, Edge]
    const [first, second] = [await reserved(taker), await reserved(taker)]
    await settle(taker.port, first)
    const [marks] = (await redis.command('KEYS', 'edge:settled:*')) as [string]
    const list = `edge:corrections:${marks.split(':')[2]}`
    const unreadable = ['{', 'null', '[]', '[1,2,[["00",null,1,[1,1],[]]],null]', '[1,2,[["00",1,1,{},[]]],null]', '[1,2,[3],null]']
    // At no time of a calendar.
    unreadable.push('[1e300,2,[["00",1,2,[9],["1d","Europe/Berlin"]]],null]', '[1,2,[["00",1,3,[9,9],[]]],-1]')
    await redis.command('RPUSH', list, ...unreadable)
    await settle(other.port, second)
    await untilLeft(taker, 1000)
    expect(await taker.metric('edge_redis_doubts_total{what="settlement"}')).toBe(unreadable.length)
  })

  test.concurrent('what the failure mode let an instance take from its own count is settled there, wherever it is asked', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(1000), owner)) as [Edge, Edge]
    await redis.stop()
    await until(async () => !(await hasRedis(taker)))
    const token = await reserved(taker)
    await redis.start()
    await until(async () => (await hasRedis(taker)) && (await hasRedis(other)))
    expect((await settle(other.port, token)).status).toBe(204)
    expect(await left(other)).toBe(1000)
    await untilLeft(taker, 1000)
  })

  test.concurrent('in leased mode too', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(1000), owner, { EDGE_REDIS_MODE: 'leased' })) as [Edge, Edge]
    expect((await settle(other.port, await reserved(taker), { prompt_tokens: 7 })).status).toBe(204)
    expect(await left(other)).toBe(993)
    await untilLeft(taker, 993)
  })

  test.concurrent('on a cluster too', async (owner) => {
    const cluster = await runningCluster(owner)
    const [taker, other] = (await sharingSecret(2, `redis://${cluster.addresses.join(',')}`, budgetBundle(1000), owner)) as [Edge, Edge]
    for (const caller of ['a', 'b', 'c', 'd']) {
      const token = await reserved(taker, caller)
      expect((await settle(other.port, token, { prompt_tokens: 7 })).status).toBe(204)
      expect((await settle(taker.port, token)).status).toBe(409)
      expect(await left(other, caller)).toBe(993)
      await untilLeft(taker, 993, caller)
    }
  })

  test.concurrent('nothing that callers send is kept in Redis, and all of it expires', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [taker, other] = (await sharingSecret(2, redis.url, budgetBundle(1000), owner)) as [Edge, Edge]
    await settleWith(other.port, { reservation: await reserved(taker, 'a-secret-api-key') })
    const keys = (await redis.command('KEYS', '*')) as string[]
    expect(keys.some((key) => key.startsWith('edge:settled:'))).toBe(true)
    for (const key of keys) {
      // -1 is no end; one that is gone by now has had its end.
      expect(await redis.command('PTTL', key)).not.toBe(-1)
      expect(Buffer.from(String(await redis.command('DUMP', key))).includes('a-secret')).toBe(false)
    }
  })
})

describeWithRedis('instances on Redis without a secret', () => {
  test('say that each settles only what it issued, and do so', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [one, other] = await Promise.all([1, 2].map(() => sharing(redis.url, { bundle: budgetBundle(1000) }, owner)))
    expect(await untilLogged(one!, 'reservations_not_shared')).toHaveLength(1)
    const token = await reserved(one!)
    expect(errorOf(await settle(other!.port, token))).toMatchObject({ status: 400, code: 'bad_reservation' })
    expect((await settle(one!.port, token)).status).toBe(204)
    expect(await left(other!)).toBe(1000)
  })
})
