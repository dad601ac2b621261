import { describe, expect, test } from 'vitest'
import { presentRate, ratesByName, ratesOf, timelineOf, valuesOf } from '../../console/timeline.ts'
import type { ActivitySample } from '../../src/admin/api/instance-types.ts'

/** A sample so many seconds after the first, with rejects of policies. */
function sample(atS: number, rejects: Readonly<Record<string, number>> = {}, seconds = 2): ActivitySample {
  const policies = Object.entries(rejects).map(([policy, rejected]) => ({ policy, allowed: 0, rejected, would_reject: 0 }))
  const rejected = policies.reduce((sum, policy) => sum + policy.rejected, 0)
  return { time: new Date(atS * 1000).toISOString(), seconds, rejected, policies, latency: null } as unknown as ActivitySample
}

const RANGE = { name: '15m', label: '', words: 'the last 15 minutes', seconds: 900 } as const
const onAxis = (samples: readonly ActivitySample[], interval_s = 2) => timelineOf({ samples, interval_s }, RANGE, samples.at(-1)!.time)
const rejectsOf = ({ rejected }: ActivitySample): number => rejected
const byPolicy = ({ policies }: ActivitySample): Map<string, number> => new Map(policies.map(({ policy, rejected }) => [policy, rejected]))

describe('the axis of time', () => {
  test('has no line over a gap', () => {
    const timeline = onAxis([sample(0, { a: 4 }), sample(2, { a: 2 }), sample(60, { a: 8 }, 2)])
    expect(timeline.times).toEqual([-2, 0, 2, 30, 58, 60])
    expect(ratesOf(timeline, rejectsOf)).toEqual([2, 2, 1, null, 4, 4])
    expect(valuesOf(timeline, ({ latency }) => latency?.p50_ms)).toEqual([null, null, null, null, null, null])
  })

  test('has a gap where the process was suspended, although the next sample covers that time', () => {
    expect(ratesOf(onAxis([sample(0, { a: 4 }), sample(300, { a: 600 }, 300)]), rejectsOf)).toEqual([2, 2, null, 2, 2])
  })

  test('has no gap where samples are late but cover all of the time', () => {
    const timeline = onAxis([sample(0), sample(5, {}, 5), sample(7.4, {}, 2)])
    expect(timeline.times).toEqual([-2, 0, 5, 7.4])
  })

  test('loses what is later than the new time where the clock was set back, and has a gap there', () => {
    expect(onAxis([sample(100), sample(102), sample(50), sample(52)]).times).toEqual([48, 50, 52])
    const timeline = onAxis([sample(40, { a: 2 }), sample(44), sample(102), sample(43, { a: 4 }), sample(45)])
    expect(timeline.times).toEqual([38, 40, 40.5, 41, 43, 45])
    expect(ratesOf(timeline, rejectsOf)).toEqual([1, 1, null, 2, 2, 0])
  })

  test('begins with the first sample of a new instance, but is not too short, and ends now', () => {
    expect(onAxis([sample(5000)])).toMatchObject({ fromS: 4887.5, toS: 5000, isPart: true, latest: 'now' })
    expect(onAxis([sample(4500), sample(5000)])).toMatchObject({ fromS: 4498, toS: 5000, isPart: true })
    const samples = [sample(1000), sample(4101), sample(4103)]
    const timeline = timelineOf({ samples, interval_s: 2 }, RANGE, new Date(5_000_000).toISOString())
    expect(timeline).toMatchObject({ fromS: 4100, toS: 5000, isPart: false, times: [4099, 4101, 4103] })
    expect(timelineOf({ samples: [], interval_s: 240 }, { ...RANGE, name: '24h' }, samples[0]!.time).latest).toBe('latest')
  })

  test('shows the names with most, and all others as one line', () => {
    // The first sample is on the axis twice, and counts once.
    const timeline = onAxis([sample(0, { a: 2, b: 13, c: 4 }), sample(2, { a: 14, d: 2 })])
    expect(ratesByName(timeline, byPolicy, rejectsOf, 2)).toEqual([
      { name: 'a', values: [1, 1, 7] },
      { name: 'b', values: [6.5, 6.5, 0] },
      { name: 'all others', values: [2, 2, 1] },
    ])
    expect(ratesByName(timeline, byPolicy, rejectsOf, 9).map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd'])
    expect(ratesByName(onAxis([sample(0)]), byPolicy, rejectsOf, 2)).toEqual([])
  })

  test('the present is the last ten seconds', () => {
    expect(presentRate([], rejectsOf)).toBeUndefined()
    expect(presentRate([sample(0, { a: 1000 }), sample(20, { a: 2 }), sample(22, { a: 6 })], rejectsOf)).toBe(2)
  })
})
