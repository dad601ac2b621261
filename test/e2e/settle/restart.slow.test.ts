import { describe, expect, test } from 'vitest'
import { BUDGET, settledOnce } from '../../support/settle/settled-once.ts'
import { errorOf, left, reserved, settle } from '../../support/settle/settling.ts'
import { KeptCounters, saves } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

const SECRET = { EDGE_RESERVATION_SECRET: 'a secret that is long enough for all of us' }

describe.concurrent('after a restart with a state file', () => {
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

describe.concurrent('after a restart of the process with a state file', () => {
  test('what was reserved before can be settled, once, by any number of workers, also after one more restart', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    await settledOnce(kept, () => kept.serve({ EDGE_WORKERS: '3' }))
  })

  test('a crash loses what was reserved after the last save: its counter does not include it, and it gets 410', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    const first = await kept.run()
    const saved = await reserved(first)
    await first.stop()
    const second = await kept.serve()
    await until(async () => (await saves(second)) > 0)
    const lost = await reserved(second)
    await second.stop('SIGKILL')

    const third = await kept.run()
    expect(errorOf(await settle(third.port, lost))).toMatchObject({ status: 410, code: 'expired_reservation' })
    expect(await left(third)).toBe(9900)
    expect((await settle(third.port, saved)).status).toBe(204)
    expect(await left(third)).toBe(10_000)
  })
})
