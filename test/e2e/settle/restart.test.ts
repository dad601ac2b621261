import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { BUDGET, settledOnce } from '../../support/settle/settled-once.ts'
import { reserve, reserved, settle } from '../../support/settle/settling.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'

const AHEAD_MS = 25 * 60 * 60 * 1000

describe.concurrent('after a restart with a state file', () => {
  test('what was reserved before can be settled, once, also after one more restart', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    await settledOnce(kept, () => kept.run())
  })

  test('so can what was reserved before and after the clock was 25 hours ahead', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    const clock = new ManualClock()
    const first = await kept.run({}, clock)
    const before = await reserved(first)
    clock.advance(AHEAD_MS)
    await reserved(first)
    clock.setBack(AHEAD_MS)
    const [settled, after] = [await reserved(first), await reserved(first)]
    expect((await settle(first.port, settled)).status).toBe(204)
    await first.stop()
    const next = await kept.run({}, clock)
    const results: number[] = []
    for (const token of [before, settled, after, before, after]) results.push((await settle(next.port, token)).status)
    expect(results).toEqual([204, 409, 204, 409, 409])
  })
})

test('without a state file, a restart refuses what was issued before', async (t) => {
  const kept = await KeptCounters.of(t, BUDGET)
  const first = await kept.run({ EDGE_STATE_FILE: '' })
  const token = await reserved(first)
  await first.stop()
  const next = await kept.run({ EDGE_STATE_FILE: '' })
  expect((await settle(next.port, token)).status).toBe(400)
  expect((await reserve(next)).headers['ratelimit-remaining']).toBe('9900')
  expect(await metric(next.port, 'edge_settlements_total{outcome="bad_reservation"}')).toBe(1)
})
