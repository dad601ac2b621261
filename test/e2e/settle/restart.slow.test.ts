import { describe, expect, test } from 'vitest'
import { BUDGET, settledOnce } from '../../support/settle/settled-once.ts'
import { errorOf, left, reserved, settle } from '../../support/settle/settling.ts'
import { KeptCounters, saves } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

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
