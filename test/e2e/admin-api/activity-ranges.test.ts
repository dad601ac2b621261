import { describe, expect, test } from 'vitest'
import { activity, covered, sampled } from '../../support/admin/sampled.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'

const HOUR_MS = 3_600_000

describe('GET activity?range=', () => {
  test('has sums of all looks, and the policies that were busiest in all of them', async () => {
    // Of each look there are six that decide more than the last one, which decides more than any of them in all.
    const names = [...Array.from({ length: 30 }, (_, i) => `p${i}`), 'steady']
    const policies = names.map((name) => policy(name, { selector: { pathPrefix: `/${name}/` }, rules: [bucketRule('r', [], 99, 1)] }))
    const { edge, sample } = await sampled({ bundle: bundle(1, ...policies) })
    for (let look = 0; look < 5; look++) {
      for (let i = 0; i < 6; i++) await edge.decideTimes(2, { uri: `/p${look * 6 + i}/` })
      await edge.decide({ uri: '/steady/' })
      const { policies: listed } = await sample()
      expect(listed.map((each: { policy: string }) => each.policy)).not.toContain('steady')
    }
    const { interval_s, samples } = await activity(edge.adminPort, '?range=1h')
    expect(interval_s).toBe(10)
    expect(samples).toMatchObject([
      {
        time: '2026-01-15T12:00:10.000Z',
        seconds: 10,
        allowed: 5 * (6 * 2 + 1),
        rejected: 0,
        latency: { p50_ms: expect.any(Number), p99_ms: expect.any(Number) },
        memory_bytes: expect.any(Number),
        store: { occupied: 31, evicted: 0 },
      },
    ])
    expect(samples[0].policies).toHaveLength(6)
    expect(samples[0].policies[0]).toEqual({ policy: 'steady', allowed: 5, rejected: 0, would_reject: 0 })
    expect(await covered(edge.adminPort, '?range=6h')).toEqual([])
  })

  test('ends a sample where the machine falls asleep, and has none of that time', async () => {
    const { edge, clock, sample } = await sampled()
    await edge.decideTimes(3, { uri: '/none' })
    for (let look = 0; look < 3; look++) await sample()
    // Only the wall clock goes on while a machine sleeps.
    clock.setBack(-8 * HOUR_MS)
    await edge.decide({ uri: '/none' })
    for (let look = 0; look < 5; look++) await sample()
    // What is older than the range is not returned, even if there is nothing newer.
    expect(await covered(edge.adminPort, '?range=1h')).toEqual([['2026-01-15T20:00:16.000Z', 10, 1]])
    clock.advance(240_000)
    await activity(edge.adminPort)
    expect(await covered(edge.adminPort, '?range=24h')).toEqual([
      ['2026-01-15T12:00:06.000Z', 6, 3],
      ['2026-01-15T20:00:16.000Z', 10, 1],
      ['2026-01-15T20:04:16.000Z', 240, 0],
    ])
  })
})
