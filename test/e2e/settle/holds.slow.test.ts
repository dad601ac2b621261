import { describe, expect, test } from 'vitest'
import { bundle, concurrencyRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { free, HOLD_MS, renewed, TWO_AT_A_TIME } from '../../support/settle/holds.ts'
import { reserve, reserved, settle } from '../../support/settle/settling.ts'
import { until } from '../../support/until.ts'

describe('requests in flight', () => {
  test('a late renewal takes again, above the limit if need be', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: TWO_AT_A_TIME, clock })
    const late = await reserved(edge)
    clock.advance(HOLD_MS)
    const others = [await reserved(edge), await reserved(edge)]
    const token = await renewed(edge, late)
    await settle(edge.port, others[0]!)
    expect(await free(edge)).toBe(0)
    await settle(edge.port, token)
    expect(await free(edge)).toBe(1)
  })

  test('a renewed token settles the budgets that it stood for, and lives for two hours again', async () => {
    const clock = new ManualClock()
    const budget = llmRule('budget', [], { tokens_per_day: 1000, max_completion_tokens: 100 })
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [budget, concurrencyRule('many', [], 1000, 3600)] })), clock })
    let token = await reserved(edge)
    for (let i = 0; i < 6; i++) {
      clock.advance(1_800_000)
      token = await renewed(edge, token)
    }
    expect((await settle(edge.port, token, { completion_tokens: 30 })).status).toBe(204)
    expect((await reserve(edge)).headers['ratelimit-remaining']).toBe('870')
  })

  test('without any, a renewal changes nothing and returns the same token', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [llmRule('b', [], { tokens_per_day: 1000 })] })) })
    const token = await reserved(edge)
    expect(await renewed(edge, token)).toBe(token)
    expect((await settle(edge.port, token)).status).toBe(204)
  })

  test('of a rule that is gone are released all the same', async () => {
    const edge = await running({ bundle: TWO_AT_A_TIME, clock: new ManualClock() })
    const [one, two] = [await reserved(edge), await reserved(edge)]
    await edge.publish(bundle(2))
    expect((await settle(edge.port, one)).status).toBe(204)
    const token = await renewed(edge, two)
    await edge.publish({ ...TWO_AT_A_TIME, bundle_version: 3 })
    expect(await free(edge)).toBe(1)
    await settle(edge.port, token)
    expect(await free(edge)).toBe(2)
  })
})

describeWithRedis('requests in flight of a fleet', () => {
  test('that another instance renewed are released at the taker, for good', async (owner) => {
    const redis = await runningRedis({}, owner)
    const env = { EDGE_RESERVATION_SECRET: 'the same for all instances of this fleet' }
    const [taker, other] = (await Promise.all([1, 2].map(() => sharing(redis.url, { bundle: TWO_AT_A_TIME, env }, owner)))) as [Edge, Edge]
    for (let i = 0; i < 3; i++) {
      const token = await renewed(taker, await renewed(other, await reserved(taker)))
      expect((await settle(taker.port, await renewed(other, token))).status).toBe(204)
    }
    await until(async () => ((await redis.command('KEYS', 'edge:corrections:*')) as string[]).length === 0)
    expect(await free(taker)).toBe(2)
  })

  test('are released at the taker also where Redis lets nobody share overrides', async (owner) => {
    const redis = await runningRedis({}, owner)
    await redis.command('ACL', 'SETUSER', 'edge', 'on', '>pw', '~*', '+@all', '-hlen')
    const options = { bundle: TWO_AT_A_TIME, env: { EDGE_RESERVATION_SECRET: 'the same for all instances of this fleet' } }
    const url = `redis://edge:pw@${redis.address}`
    const [taker, other] = (await Promise.all([1, 2].map(() => sharing(url, options, owner)))) as [Edge, Edge]
    await untilLogged(taker, 'control_not_shared')
    const token = await reserved(taker)
    expect((await settle(other.port, token)).status).toBe(204)
    await until(async () => ((await redis.command('KEYS', 'edge:corrections:*')) as string[]).length === 0)
    expect(await free(taker)).toBe(2)
  })
})
