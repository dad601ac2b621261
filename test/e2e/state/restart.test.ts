import { describe, expect, test } from 'vitest'
import { bundle, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { ALL_KINDS, goOnOfEveryKind } from '../../support/state/every-kind.ts'
import { decide, KeptCounters, take } from '../../support/state/kept-counters.ts'

describe.concurrent('counters go on after a restart', () => {
  test('of every kind, in a larger table', async (t) => {
    const kept = await KeptCounters.of(t, ALL_KINDS)
    const clock = new ManualClock()
    await goOnOfEveryKind(kept, (env) => kept.run(env, clock))
  })
})

test.concurrent('quotas and debts go on after a restart', async (t) => {
  const year = { limit: 10, period: '1y', timezone: 'Asia/Kathmandu' }
  const rules = [
    windowRule('quota', ['header:x-quota'], year),
    windowRule('window', ['header:x-window'], { ...year, cost: 25, when_over: 'charge' }),
    windowRule('week', ['header:x-week'], { limit: 10, period: '1w', anchor: 'sunday' }),
    rateRule('rate', ['header:x-rate'], { rate: '10/day', cost: 25, when_over: 'charge' }),
  ]
  const kept = await KeptCounters.of(t, bundle(1, policy('p', { rules })))
  const first = await kept.run()
  expect(await take(first, 4, 'a', 'X-Quota')).toBe(6)
  expect(await take(first, 3, 'a', 'X-Week')).toBe(7)
  expect([await take(first, 1, 'a', 'X-Window'), await take(first, 1, 'a', 'X-Rate')]).toEqual([0, 0])
  await first.stop()

  const second = await kept.run()
  expect(await untilLogged(second, 'state_loaded')).toMatchObject([{ counters: 4 }])
  expect(await take(second, 1, 'a', 'X-Quota')).toBe(5)
  expect(await take(second, 1, 'a', 'X-Week')).toBe(6)
  for (const [name, reason] of [
    ['X-Window', 'quota_exceeded'],
    ['X-Rate', 'token_bucket_exceeded'],
  ] as const) {
    const { status, headers } = await decide(second, name, 'a')
    expect([status, headers['x-edge-reason']]).toEqual([429, reason])
    // 15 below zero, at 10 a day
    if (name === 'X-Rate') expect(Number(headers['retry-after'])).toBeGreaterThan(1.4 * 86_400)
  }
})
