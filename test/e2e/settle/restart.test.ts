import { describe, expect, test } from 'vitest'
import { metric } from '../../support/service/metrics.ts'
import { BUDGET, settledOnce } from '../../support/settle/settled-once.ts'
import { reserve, reserved, settle } from '../../support/settle/settling.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'

describe.concurrent('after a restart with a state file', () => {
  test('what was reserved before can be settled, once, also after one more restart', async (t) => {
    const kept = await KeptCounters.of(t, BUDGET)
    await settledOnce(kept, () => kept.run())
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
