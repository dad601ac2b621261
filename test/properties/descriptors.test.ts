import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LimitDescriptor, LimitResult } from '../../src/engine/descriptors/descriptor-call.ts'
import { bundle } from '../support/bundles/bundles.ts'
import { descriptor, limitEngine, told } from '../support/rate-limit/limit-engine.ts'
import { ModelLimits, type ModelPolicy } from '../support/rate-limit/model-limits.ts'
import { runs } from '../support/run/property-runs.ts'
import { MapStore } from '../support/store/map-store.ts'

const NAMES = ['a', 'b']
const VALUES = ['x', 'y', 'z']

const patterns = fc.uniqueArray(fc.constantFrom('x', 'y', 'z*', '*'), { minLength: 1, maxLength: 2 })
const match = fc.dictionary(fc.constantFrom(...NAMES), patterns, { minKeys: 1 })
const limitKeys = fc.uniqueArray(fc.constantFrom(...NAMES))

const rule = fc.record({
  match: fc.oneof(fc.constant(undefined), match),
  limitKeys,
  kind: fc.constantFrom('bucket', 'window', 'charge', 'bucket', 'window', 'charge', 'unlimited', 'block' as const),
  size: fc.integer({ min: 1, max: 6 }),
})

const policies: fc.Arbitrary<ModelPolicy[]> = fc.array(
  fc.record({
    isShadow: fc.boolean(),
    only: fc.option(match, { nil: undefined, freq: 4 }),
    rules: fc.array(rule, { minLength: 1, maxLength: 4 }),
    other: fc.option(rule, { nil: undefined }),
  }),
  { minLength: 1, maxLength: 4 },
)

const call = fc.array(
  fc.record({
    entries: fc.uniqueArray(fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...VALUES)), { selector: ([name]) => name, minLength: 1 }),
    hits: fc.constantFrom(0, 0, 1, 1, 2, 3, 7),
    isGivenBack: fc.constantFrom(false, false, false, true),
  }),
  { minLength: 1, maxLength: 4 },
)

const steps = fc.array(fc.record({ call, advanceS: fc.constantFrom(0, 0, 0, 1, 3, 3600) }), { minLength: 1, maxLength: 15 })

test('calls take, refuse and give back as a simple model does, on every counter', () => {
  fc.assert(
    fc.property(policies, steps, (written, all) => {
      const model = new ModelLimits(written)
      const spec = bundle(1, ...model.policies)
      const engines = [limitEngine(spec), limitEngine(spec, new MapStore())]
      for (const { call: descriptors, advanceS } of all) {
        const expected = model.decide(descriptors)
        for (const { engine } of engines) {
          const asked = descriptors.map(({ entries, hits, isGivenBack }): LimitDescriptor => {
            return descriptor(entries.map(([name, value]) => `${name}=${value}`).join(' '), hits, isGivenBack)
          })
          const result = engine.decideDescriptors({ domain: 'd', descriptors: asked }) as LimitResult
          expect(told(result)).toBe(expected.told)
          expect(wouldRejects(result)).toEqual(expected.wouldRejects)
        }
        model.advance(advanceS)
        for (const { clock } of engines) clock.advance(advanceS * 1000)
      }
      for (const { policy: id, rule: name, values, level } of model.counters()) {
        const seen = engines[0]!.engine.inspect({ policy: id, rule: name, values })
        expect(seen).toMatchObject({ ok: true, counters: [{ level }] })
      }
    }),
    { numRuns: runs(6) },
  )
})

function wouldRejects({ decision }: LimitResult): string[] {
  return decision.action === 'refuse' ? [] : decision.wouldRejects.map(({ rule }) => rule.policy.id)
}
