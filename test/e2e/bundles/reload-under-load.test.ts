import { expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { more, remaining, STEADY_BURST, STEP, start, TRIAL_BURST, withTrial } from '../../support/bundles/load-over-reload.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

test('from shadow to enforce and back: no question is lost, and the other rule counts exactly', async () => {
  const edge = await running({ bundle: withTrial(1, 'shadow'), clock: new ManualClock() })
  const load = start(edge)

  await more(load)
  expect(load.count(429)).toBe(0)
  expect(await offer(edge, withTrial(2, 'enforce'))).toMatchObject({ event: 'bundle_applied' })
  await until(() => load.count(429) > STEP)
  expect(await offer(edge, withTrial(3, 'shadow'))).toMatchObject({ event: 'bundle_applied' })
  await more(load)
  await load.stop()

  expect(load.errors).toEqual([])
  expect([...load.statuses.keys()].sort()).toEqual([200, 429])
  // While it enforced, the trial rule let its burst through and was the most constrained; before and after it was not seen.
  expect(Object.fromEntries(load.allowedBy)).toEqual({ '"trial"': TRIAL_BURST, '"steady"': load.count(200) - TRIAL_BURST })
  expect(await remaining(edge)).toBe(STEADY_BURST - load.count(200) - 1)
  expect(await decisions(edge, 'reject')).toBe(load.count(429))
  expect(await decisions(edge, 'allow')).toBe(load.count(200) + 1)
  expect(await edge.decideTimes(20, { fields: [['X-Caller', 'alice']] })).toEqual(Array(20).fill(200))
})

async function decisions(edge: Edge, action: string): Promise<number> {
  const lines = (await edge.get('/metrics')).body.split('\n').filter((line) => line.startsWith(`edge_decisions_total{action="${action}"`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
