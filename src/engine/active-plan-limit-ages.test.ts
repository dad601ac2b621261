import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { compileBundle, namedLimits } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { Plan } from '../policy/plan.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { limitAges } from './active-plan.ts'
import { Engine } from './engine.ts'

test('a limit holds since the bundle that brought it, not since the last that repeats it', () => {
  const first = limitAges(namedLimits(planOf(rated(10, 1), policy('b', { rules: [bucketRule('r', [], 5)] })).counters), 100, undefined)
  const second = limitAges(namedLimits(planOf(rated(10, 2), policy('b', { rules: [bucketRule('r', [], 5)] })).counters), 200, first)
  expect([...second.sincesMs]).toEqual([200, 100])
})

describe('a new bundle', () => {
  test('keeps what was spent under rules that are still the same, wherever they stand in it', () => {
    const service = newService(policy('a', { rules: [bucketRule('r', [], 10), bucketRule('s', [], 20)] }))
    service.take(4)
    service.load(policy('other', { selector: { pathPrefix: '/x' }, rules: [] }), policy('a', { rules: [bucketRule('s', [], 20)] }))
    expect(service.remaining()).toBe(15)
  })

  test.each([
    ['policy id', policy('b', { rules: [bucketRule('r', [], 10)] })],
    ['rule name', policy('a', { rules: [bucketRule('s', [], 10)] })],
  ])('begins anew for a rule with another %s', (_, other) => {
    const service = newService(policy('a', { rules: [bucketRule('r', [], 10)] }))
    service.take(4)
    service.load(other)
    expect(service.remaining()).toBe(9)
  })

  test('refills at the old rate until it came, and at the new one from then on', () => {
    const service = newService(rated(10, 1))
    service.take(10)
    service.clock.advance(3000)
    service.load(rated(10, 2))
    service.clock.advance(2000)
    expect(service.remaining()).toBe(3 + 4 - 1)
  })

  test('with the same limits does not lose the time since the last request, however often it comes', () => {
    const service = newService(rated(10, 1))
    service.take(10)
    for (let i = 0; i < 4; i++) {
      service.clock.advance(500)
      service.load(rated(10, 1))
    }
    expect(service.remaining()).toBe(2 - 1)
  })

  test('that brings a rule back after it was gone finds what was spent under it', () => {
    const service = newService(rated(10, 0.001))
    service.take(10)
    service.load()
    service.load(rated(10, 0.001))
    expect(service.remaining()).toBe(0)
  })

  test('with a smaller burst cuts the level, and a larger one does not fill it', () => {
    const service = newService(rated(10, 0.001))
    service.take(2)
    service.load(rated(5, 0.001))
    expect(service.remaining()).toBe(4)
    service.load(rated(100, 0.001))
    expect(service.remaining()).toBe(3)
  })
})

function rated(burst: number, perSecond: number): PolicyText {
  return policy('a', { rules: [bucketRule('r', [], burst, perSecond)] })
}

function planOf(...policies: PolicyText[]): Plan {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

function newService(...policies: PolicyText[]) {
  const clock = new ManualClock()
  const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock })
  const view = new PlainRequestView({ method: 'GET', uri: '/' })
  const service = {
    clock,
    load(...list: PolicyText[]): void {
      engine.activate(planOf(...list))
    },
    take(times: number): void {
      for (let i = 0; i < times; i++) engine.decide(view)
    },
    /** Takes one more, and tells what is left. */
    remaining(): number | undefined {
      const decision = engine.decide(view)
      return 'limit' in decision ? decision.limit?.remaining : undefined
    },
  }
  service.load(...policies)
  return service
}
