import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { PlanRule } from '../../src/policy/plan.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { mergedTop } from '../../src/top/merged-top.ts'
import { PERIOD_MS } from '../../src/top/rejected-callers.ts'
import { StreamSummary } from '../../src/top/stream-summary.ts'
import { TopCallers } from '../../src/top/top-callers.ts'
import type { TopFilter } from '../../src/top/top-filter.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'
import { runs } from '../support/run/property-runs.ts'

test('a summary is never too low, and too high by its smallest count at most, in any order of items', () => {
  const items = fc.oneof(fc.array(fc.nat(40), { maxLength: 300 }), fc.array(fc.nat(6), { maxLength: 300 }), hostileOrder)
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), items, fc.boolean(), (capacity, all, isUsedBefore) => {
      const summary = new StreamSummary(capacity)
      if (isUsedBefore) for (let i = 0; i < 50; i++) summary.add(i % 17, i)
      summary.clear()
      for (const item of all) summary.add(item, -item)
      const exact = countsOf(all)
      const error = summary.leastCount
      // Each item that came raised one count.
      expect(error).toBeLessThanOrEqual(all.length / capacity)
      expect(summary.length).toBe(Math.min(capacity, exact.size))
      for (let slot = 0; slot < summary.length; slot++) {
        const item = summary.lows[slot]!
        expect(summary.highs[slot]).toBe(item === 0 ? 0 : -item)
        const count = exact.get(item)!
        exact.delete(item)
        expect(summary.countAt(slot)).toBeGreaterThanOrEqual(count)
        expect(summary.countAt(slot)).toBeLessThanOrEqual(count + error)
      }
      for (const count of exact.values()) expect(count).toBeLessThanOrEqual(error)
    }),
  )
})

/** Many that come once, then one that comes often, and so on. */
const hostileOrder = fc
  .array(fc.tuple(fc.boolean(), fc.nat(30), fc.integer({ min: 1, max: 40 })), { maxLength: 12 })
  .map((phases) => phases.flatMap(([isOne, item, count]) => Array.from({ length: count }, (_, i) => (isOne ? item : item + i))))

const RULES: readonly PlanRule[] = planOf(
  bundle(
    1,
    policy('a', { rules: [bucketRule('r', ['header:x-k'], 1), bucketRule('s', ['header:x-k', 'bearer'], 1)] }),
    policy('b', { rules: [bucketRule('r', ['header:x-k'], 1)] }),
  ),
).policies.flatMap(({ rules }) => rules)

const NEVER = new Promise(() => {})

const FILTERS: readonly TopFilter[] = [{}, { policy: 'a' }, { policy: 'b' }, { policy: 'a', rule: 'r' }, { policy: 'a', rule: 's' }]

interface Phase {
  readonly thread: number
  readonly rule: number
  readonly first: number
  readonly callers: number
  readonly times: number
  readonly pauseMs: number
}

const phase: fc.Arbitrary<Phase> = fc.record({
  thread: fc.nat(1),
  rule: fc.nat(RULES.length - 1),
  first: fc.nat(1500),
  // A period keeps 1,000 of them.
  callers: fc.constantFrom(1, 3, 700, 1800),
  times: fc.constantFrom(1, 2, 5),
  pauseMs: fc.constantFrom(0, 0, PERIOD_MS / 3, PERIOD_MS, 3 * PERIOD_MS, 9 * PERIOD_MS),
})

/** A caller that one thread has lost to others, and the other thread counts. */
const EVICTED_ON_ONE_THREAD: Phase[] = [
  { thread: 0, rule: 0, first: 0, callers: 1, times: 1, pauseMs: 0 },
  { thread: 0, rule: 0, first: 100, callers: 1800, times: 2, pauseMs: 0 },
  { thread: 1, rule: 0, first: 0, callers: 1, times: 5, pauseMs: 0 },
]

test('the merged counts of two threads are within the error that is stated, for all, for a policy and for a rule', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(phase, { minLength: 1, maxLength: 8 }), async (phases) => {
      const threads = [1, 2].map(() => new TopCallers({ store: newEmbeddedStore(64 * 1024), hashKey: [1, 2], callerDigest: digestOf }))
      const rejects: { readonly name: string; readonly rule: PlanRule; readonly atMs: number }[] = []
      let nowMs = 10 * PERIOD_MS
      for (const { thread, rule: index, first, callers, times, pauseMs } of phases) {
        const rule = RULES[index]!
        for (let i = 0; i < callers * times; i++) {
          const values = [`caller ${first + (i % callers)}`, 'secret']
          // The values are among others.
          threads[thread]!.onReject(rule, ['another', ...values], 1, nowMs)
          rejects.push({ name: nameOf(rule, values[0]!), rule, atMs: nowMs })
        }
        nowMs += pauseMs
      }
      for (const filter of FILTERS) {
        const reports = await Promise.all(threads.map((thread) => thread.report(filter, undefined, nowMs, 0, NEVER)))
        const { sinceMs, maxError, hourSinceMs, hourMaxError, rejected } = mergedTop(reports, filter, Number.POSITIVE_INFINITY)
        expect(nowMs - sinceMs).toBeGreaterThanOrEqual(PERIOD_MS)
        expect(nowMs - sinceMs).toBeLessThan(2 * PERIOD_MS)
        expect(nowMs - hourSinceMs).toBeGreaterThanOrEqual(12 * PERIOD_MS)
        const kept = rejects.filter(({ atMs }) => atMs >= sinceMs)
        expect(maxError).toBeLessThanOrEqual(kept.length / 1000)
        const exact = countsOf(kept.filter(({ rule }) => isOf(filter, rule)).map(({ name }) => name))
        const ofHour = rejects.filter(({ atMs, rule }) => atMs >= hourSinceMs && isOf(filter, rule))
        const timesOf = new Map<string, { readonly atMs: number }[]>()
        for (const { name, atMs } of ofHour) {
          const times = timesOf.get(name)
          if (times === undefined) timesOf.set(name, [{ atMs }])
          else times.push({ atMs })
        }
        const wrong = rejected.filter(({ policy: id, rule, values, count, hourCount, firstMs, lastMs }) => {
          const name = `${id}/${rule}/${values['header:x-k']}`
          const known = exact.get(name) ?? 0
          exact.delete(name)
          const times = timesOf.get(name)!
          timesOf.delete(name)
          const isCounted = count === 0 ? known <= maxError : count >= known && count <= known + maxError
          const isOfHour = Math.abs(hourCount - times.length) <= hourMaxError
          const isTimed = firstMs >= times[0]!.atMs && lastMs <= times.at(-1)!.atMs && firstMs <= lastMs
          const isExact = hourMaxError > 0 || (firstMs === times[0]!.atMs && lastMs === times.at(-1)!.atMs)
          return !isCounted || !isOfHour || !isTimed || !isExact
        })
        expect(wrong).toEqual([])
        expect([...timesOf.values()].filter(({ length }) => length > hourMaxError)).toEqual([])
        // Who is not listed.
        expect([...exact].filter(([, count]) => count > maxError)).toEqual([])
        expect(rejected.map(({ count }) => count)).toEqual(rejected.map(({ count }) => count).sort((a, b) => b - a))
      }
    }),
    { numRuns: runs(1), examples: [[EVICTED_ON_ONE_THREAD]] },
  )
})

function isOf({ policy: id, rule: name }: TopFilter, rule: PlanRule): boolean {
  return (id === undefined || rule.policy.id === id) && (name === undefined || rule.name === name)
}

function nameOf(rule: PlanRule, caller: string): string {
  return `${rule.policy.id}/${rule.name}/${caller}`
}

function digestOf(): string {
  return '0123456789abcdef'
}

function countsOf<Item>(items: readonly Item[]): Map<Item, number> {
  const counts = new Map<Item, number>()
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
  return counts
}
