import { describe, expect, test } from 'vitest'
import { metric } from '../../support/service/metrics.ts'
import { BUDGET, settledOnce } from '../../support/settle/settled-once.ts'
import { errorOf, left, reserve, reserved, settle } from '../../support/settle/settling.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'

const SECRET = { EDGE_RESERVATION_SECRET: 'a secret that is long enough for all of us' }

describe.concurrent('after a restart with a state file', () => {
  test('what was reserved before can be settled, once, also after one more restart', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    await settledOnce(kept, () => kept.run())
  })

  test('new reservations are no old ones', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    const first = await kept.run()
    const before = await reserved(first)
    await first.stop()
    const next = await kept.run()
    const after = await reserved(next)
    expect((await settle(next.port, after)).status).toBe(204)
    expect((await settle(next.port, before)).status).toBe(204)
    expect(await left(next)).toBe(10_000)
  })

  test('the same holds with EDGE_RESERVATION_SECRET; another secret refuses all that was issued before', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    const first = await kept.run(SECRET)
    const [one, two] = [await reserved(first), await reserved(first)]
    await first.stop()
    const next = await kept.run(SECRET)
    expect((await settle(next.port, one)).status).toBe(204)
    await next.stop()
    const other = await kept.run({ EDGE_RESERVATION_SECRET: 'b'.repeat(32) })
    expect(errorOf(await settle(other.port, two))).toMatchObject({ status: 400, code: 'bad_reservation' })
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
