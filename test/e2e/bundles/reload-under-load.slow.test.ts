import { rm } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { offer, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { more, remaining, STEADY_BURST, start, withTrial } from '../../support/bundles/load-over-reload.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

test('a refused bundle, and one that vanishes: no question is lost, and the counters go on', async () => {
  const edge = await running({ bundle: withTrial(1, 'shadow'), clock: new ManualClock() })
  const load = start(edge)

  await more(load)
  expect(await offer(edge, withTrial(1, 'enforce'))).toMatchObject({ event: 'bundle_refused' })
  await more(load)
  expect(await offer(edge, '{"bundle_version":2,"policies":[')).toMatchObject({ event: 'bundle_refused' })
  await more(load)
  expect(await offer(edge, { bundle_version: 2, policies: [{}] })).toMatchObject({ event: 'bundle_refused' })
  await more(load)
  expect(await verdictAfter(edge, () => rm(edge.bundlePath))).toMatchObject({ event: 'bundle_unreadable' })
  await more(load)
  await load.stop()

  expect(load.errors).toEqual([])
  expect([...load.statuses.keys()]).toEqual([200])
  expect(Object.fromEntries(load.allowedBy)).toEqual({ '"steady"': load.total })
  expect(await remaining(edge)).toBe(STEADY_BURST - load.total - 1)
})

test('rates that change: what was spent stays spent, to the token', async () => {
  const edge = await running({ bundle: steady(1, STEADY_BURST), clock: new ManualClock() })
  const load = start(edge)
  for (const [version, burst] of [
    [2, STEADY_BURST * 2],
    [3, STEADY_BURST + 1],
    [4, STEADY_BURST * 3],
  ] as const) {
    await more(load)
    expect(await offer(edge, steady(version, burst))).toMatchObject({ event: 'bundle_applied' })
  }
  await more(load)
  await load.stop()
  expect(load.errors).toEqual([])
  expect([...load.statuses.keys()]).toEqual([200])
  expect(await remaining(edge)).toBe(STEADY_BURST - load.total - 1)
})

function steady(version: number, burst: number): object {
  return bundle(version, policy('steady', { rules: [bucketRule('steady', ['header:x-caller'], burst, version)] }))
}
