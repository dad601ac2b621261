import { describe, expect, test } from 'vitest'
import { bundle, concurrencyRule, llmRule, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { errorOf, reserve, reserved, settle, settleWith } from '../../support/settle/settling.ts'
import { until } from '../../support/until.ts'

const HOLD_MS = 80_000
const TWO_AT_A_TIME = bundle(1, policy('p', { rules: [concurrencyRule('two', ['header:x-key'], 2, HOLD_MS / 1000)] }))

async function renewed(edge: Edge, reservation: string): Promise<string> {
  const { status, headers } = await settleWith(edge.port, { reservation, renew: true })
  expect(status).toBe(204)
  return headers['x-edge-reservation']!
}

/** How many more could be in flight. */
async function free(edge: Edge): Promise<number> {
  const tokens: string[] = []
  for (let next = await reserve(edge); next.status === 200; next = await reserve(edge)) tokens.push(next.headers['x-edge-reservation']!)
  for (const token of tokens) expect((await settle(edge.port, token)).status).toBe(204)
  return tokens.length
}

describe('requests in flight', () => {
  test('are released by a settlement, whatever it says was used, and once', async () => {
    const edge = await running({ bundle: TWO_AT_A_TIME, clock: new ManualClock() })
    const [one, two] = [await reserved(edge), await reserved(edge)]
    const rejected = await reserve(edge)
    expect([rejected.status, rejected.headers['x-edge-reason']]).toEqual([429, 'concurrency_exceeded'])
    await settle(edge.port, one, { completion_tokens: 500 })
    await settle(edge.port, one)
    expect(await free(edge)).toBe(1)
    await settleWith(edge.port, { reservation: two, cost: 3 })
    expect(await free(edge)).toBe(2)
  })

  test('that are not settled end by themselves, and a settlement after that releases nothing', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: TWO_AT_A_TIME, clock })
    const token = await reserved(edge)
    clock.advance(HOLD_MS)
    const other = await reserved(edge)
    expect((await settle(edge.port, token)).status).toBe(204)
    expect(await free(edge)).toBe(1)
    await settle(edge.port, other)
  })

  test('that are renewed last, for as long as they are', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: TWO_AT_A_TIME, clock })
    let token = await reserved(edge)
    for (let i = 0; i < 5; i++) {
      clock.advance(HOLD_MS / 2)
      token = await renewed(edge, token)
      expect(await free(edge)).toBe(1)
    }
    expect((await settle(edge.port, token)).status).toBe(204)
    expect(await free(edge)).toBe(2)
    expect(await edge.metric('edge_settlements_total{outcome="renewed"}')).toBe(5)
  })

  test('a renewal uses its token up: neither a second one nor a settlement by it changes anything', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: TWO_AT_A_TIME, clock })
    const first = await reserved(edge)
    clock.advance(HOLD_MS / 2)
    const second = await renewed(edge, first)
    for (const again of [{ reservation: first, renew: true }, { reservation: first }]) {
      expect(errorOf(await settleWith(edge.port, again))).toMatchObject({ status: 409, code: 'already_settled' })
    }
    expect(await free(edge)).toBe(1)
    expect((await settle(edge.port, second)).status).toBe(204)
    expect(await free(edge)).toBe(2)
  })

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
  test('are renewed and released at any instance, and all agree', async (owner) => {
    const redis = await runningRedis({}, owner)
    const env = { EDGE_RESERVATION_SECRET: 'the same for all instances of this fleet' }
    const [one, two, three] = (await Promise.all([1, 2, 3].map(() => sharing(redis.url, { bundle: TWO_AT_A_TIME, env }, owner)))) as [
      Edge,
      Edge,
      Edge,
    ]
    let token = await reserved(one)
    for (const edge of [two, three, one, three]) token = await renewed(edge, token)
    for (const edge of [one, two, three]) expect(await free(edge)).toBe(1)
    expect((await settle(two.port, token)).status).toBe(204)
    for (const edge of [one, two, three]) {
      expect(await free(edge)).toBe(2)
      expect((await settle(edge.port, token)).status).toBe(409)
    }
  })
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
})
