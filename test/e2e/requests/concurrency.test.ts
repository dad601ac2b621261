import { expect, test } from 'vitest'
import { bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { running, thisTest } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { decide, KeptCounters } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

/** Requests in flight in decision_service, where nobody reports their ends. */

function rules(max: number, holdSeconds?: number): object {
  return bundle(1, policy('p', { rules: [concurrencyRule('r', ['header:x-caller'], max, holdSeconds)] }))
}

test('each question counts for hold_seconds', async () => {
  const edge = await running({ bundle: rules(2, 1) })
  const fields = [['X-Caller', 'a']] as const
  expect(await edge.decideTimes(2, { fields })).toEqual([200, 200])
  const rejected = await edge.decide({ fields })
  expect([rejected.status, rejected.headers]).toMatchObject([429, { 'retry-after': '1', 'x-edge-reason': 'concurrency_exceeded' }])
  expect((await edge.decide({ fields: [['X-Caller', 'b']] })).headers).toMatchObject({ 'ratelimit-limit': '2', 'ratelimit-remaining': '1' })
  await until(async () => (await edge.decide({ fields })).status === 200)
})

test('the log says so when such a bundle becomes active, and not in reverse_proxy', async () => {
  const edge = await running({ bundle: rules(2) })
  expect(await untilLogged(edge, 'holds_expire')).toMatchObject([
    {
      level: 40,
      rules: [
        'policy "p", rule "r": in decision_service each request counts as in flight for 60 seconds (hold_seconds), unless its end is reported to /v1/settle',
      ],
    },
  ])
  expect((await running({ bundle: bundle(1) })).logged('holds_expire')).toEqual([])
  const proxy = await proxying(await HttpBackend.start(), { bundle: rules(2) })
  expect(proxy.logged('holds_expire')).toEqual([])
  await proxy.publish({ ...rules(3), bundle_version: 2 })
  expect(await untilLogged(proxy, 'bundle_applied', 2)).toHaveLength(2)
})

test('what is in flight is in the state file, and counts after a restart', async () => {
  const kept = await KeptCounters.of(thisTest, rules(2, 3600))
  const first = await kept.run()
  await decide(first, 'X-Caller', 'a')
  await first.stop()
  const second = await kept.run()
  expect((await decide(second, 'X-Caller', 'a')).headers).toMatchObject({ 'ratelimit-remaining': '0' })
  expect((await decide(second, 'X-Caller', 'a')).status).toBe(429)
})
