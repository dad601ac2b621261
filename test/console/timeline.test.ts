import { describe, expect, test } from 'vitest'
import { presentRate, ratesByName, ratesOf, timelineOf, valuesOf } from '../../console/timeline.ts'
import type { ActivitySample } from '../../src/admin/api/instance-types.ts'

/** A sample so many seconds after the first, with rejects of policies. */
function sample(atS: number, rejects: Readonly<Record<string, number>> = {}, seconds = 2): ActivitySample {
  const policies = Object.entries(rejects).map(([policy, rejected]) => ({ policy, allowed: 0, rejected, would_reject: 0 }))
  const rejected = policies.reduce((sum, policy) => sum + policy.rejected, 0)
  return { time: new Date(atS * 1000).toISOString(), seconds, rejected, policies, latency: null } as unknown as ActivitySample
}

const rejectsOf = ({ rejected }: ActivitySample): number => rejected
const byPolicy = ({ policies }: ActivitySample): Map<string, number> => new Map(policies.map(({ policy, rejected }) => [policy, rejected]))

describe('the axis of time', () => {
  test('has no line over a gap', () => {
    const timeline = timelineOf([sample(0, { a: 4 }), sample(2, { a: 2 }), sample(60, { a: 8 }, 4)], 2)
    expect(timeline.times).toEqual([0, 2, 4, 60])
    expect(ratesOf(timeline, rejectsOf)).toEqual([2, 1, null, 2])
    expect(valuesOf(timeline, ({ latency }) => latency?.p50_ms)).toEqual([null, null, null, null])
  })

  test('begins anew where the clock was set back', () => {
    expect(timelineOf([sample(100), sample(102), sample(50), sample(52)], 2).times).toEqual([50, 52])
  })

  test('shows the names with most, and all others as one line', () => {
    const timeline = timelineOf([sample(0, { a: 2, b: 10, c: 4 }), sample(2, { a: 20, d: 2 })], 2)
    expect(ratesByName(timeline, byPolicy, rejectsOf, 2)).toEqual([
      { name: 'a', values: [1, 10] },
      { name: 'b', values: [5, 0] },
      { name: 'all others', values: [2, 1] },
    ])
    expect(ratesByName(timeline, byPolicy, rejectsOf, 9).map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd'])
    expect(ratesByName(timelineOf([sample(0)], 2), byPolicy, rejectsOf, 2)).toEqual([])
  })

  test('the present is the last ten seconds', () => {
    expect(presentRate([], rejectsOf)).toBeUndefined()
    expect(presentRate([sample(0, { a: 1000 }), sample(20, { a: 2 }), sample(22, { a: 6 })], rejectsOf)).toBe(2)
  })
})
