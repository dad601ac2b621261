import { describe, expect, test } from 'vitest'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { free, HOLD_MS, renewed, TWO_AT_A_TIME } from '../../support/settle/holds.ts'
import { errorOf, reserve, reserved, settle, settleWith } from '../../support/settle/settling.ts'

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
})
