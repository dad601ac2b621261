import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CounterWatch } from '../../support/service/counter-watch.ts'
import { metricsOf } from '../../support/service/metrics.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { loadOnAll, servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 3

function withPolicy(version: number): object {
  return bundle(version, policy(`p${version}`, { rules: [bucketRule('r', [], 100, 1)] }))
}

// One after the other, on the same process.
describe('the metrics of several workers', () => {
  const suite = thisSuite()
  let cli: Workers
  beforeAll(async () => {
    cli = await servingOn(WORKERS, withPolicy(1), {}, suite)
  })

  test('whoever is asked tells of all workers, never of less than before, and in the end of every answer', async () => {
    const before = await metricsOf(cli.port)
    const load = await loadOnAll(cli.port, original('/'), 12)
    const watches = [new CounterWatch(cli.port), new CounterWatch(cli.port)]
    onTestFinished(async () => {
      await Promise.all(watches.map((watch) => watch.stop().catch(() => {})))
    })
    // Series of new policies come while others look.
    for (const version of [2, 3, 4]) {
      const target = load.total + 150
      await until(() => load.total > target)
      expect(await offer(cli, withPolicy(version))).toMatchObject({ event: 'bundle_applied' })
    }
    await until(() => watches.every(({ looks }) => looks > 20))
    await load.stop()
    const [metrics] = await Promise.all(watches.map((watch) => watch.stop()))

    expect(watches.flatMap(({ falls }) => falls)).toEqual([])
    expect(load.errors).toEqual([])
    expect(metrics!.sum('edge_decisions_total{action="allow"') - before.sum('edge_decisions_total{action="allow"')).toBe(load.count(200))
    expect(metrics!.sum('edge_decisions_total{action="reject"') - before.sum('edge_decisions_total{action="reject"')).toBe(load.count(429))
    expect(metrics!.sum('edge_rejects_total') - before.sum('edge_rejects_total')).toBe(load.count(429))
    const answered = 'edge_decision_duration_seconds_count'
    expect(metrics!.value(answered) - before.value(answered)).toBe(load.total)
    expect(metrics!.value('edge_bundle_reloads_total{result="applied"}')).toBe(4)
  })
})
