import { rm } from 'node:fs/promises'
import { expect, onTestFinished, test } from 'vitest'
import { offer, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { Load } from '../../support/service/load.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'

const STEADY_BURST = 1_000_000
const TRIAL_BURST = 5
const STEP = 40

function withTrial(version: number, mode: string): object {
  return bundle(
    version,
    policy('steady', { rules: [bucketRule('steady', ['header:x-caller'], STEADY_BURST)] }),
    policy('trial', { mode, rules: [bucketRule('trial', ['header:x-caller'], TRIAL_BURST)] }),
  )
}

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

function start(edge: Edge): Load {
  const load = new Load(edge.port, original('/', ['X-Caller', 'alice']), 8)
  onTestFinished(() => load.stop())
  return load
}

async function more(load: Load): Promise<void> {
  const target = load.total + STEP
  await until(() => load.total >= target)
}

async function remaining(edge: Edge): Promise<number> {
  return Number((await edge.decide({ fields: [['X-Caller', 'alice']] })).headers['ratelimit-remaining'])
}

async function decisions(edge: Edge, action: string): Promise<number> {
  const lines = (await edge.get('/metrics')).body.split('\n').filter((line) => line.startsWith(`edge_decisions_total{action="${action}"`))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
