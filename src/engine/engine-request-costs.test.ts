import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, type PolicyText, policy, rateRule, windowRule } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { OpenOptions } from './decide-options.ts'
import type { Decision } from './decision.ts'
import { Engine } from './engine.ts'
import type { Inspection } from './explain/inspection.ts'

const ALGORITHMS = [
  ['token_bucket', (config: object) => rateRule('r', [], { rate: '10/minute', ...config })],
  ['fixed_window', (config: object) => windowRule('r', [], { limit: 10, period: '1d', ...config })],
] as const

describe.each(ALGORITHMS)('a number given with the question, in %s', (_, rule) => {
  test.each([
    ['a fixed cost', { cost: 7 }],
    ['the cost in a header field', { cost: { header: 'x-cost' } }],
  ])('replaces %s', (_what, config) => {
    const engine = engineWith(policy('p', { rules: [rule(config)] }))
    expect(decide(engine, { given: 2 }, { 'x-cost': '5' })).toMatchObject({ action: 'allow', limit: { remaining: 8 } })
    expect(decide(engine, { given: 9 })).toMatchObject({ action: 'reject', requested: 9, available: 8 })
  })

  test('of 0 only checks: it is refused from zero on where the limit can be overdrawn, and never where it cannot', () => {
    for (const [whenOver, refused] of [
      ['reject', 'allow'],
      ['charge', 'reject'],
    ]) {
      const engine = engineWith(policy('p', { rules: [rule({ when_over: whenOver })] }))
      expect(decide(engine, { given: 9 }).action).toBe('allow')
      for (let i = 0; i < 3; i++) expect(decide(engine, { given: 0 }).action).toBe('allow')
      expect(decide(engine, { given: 1 }).action).toBe('allow')
      expect(decide(engine, { given: 0 }).action).toBe(refused)
    }
  })
})

describe.each(ALGORITHMS)('a debt in %s', (_, rule) => {
  const CHARGE = policy('p', { rules: [rule({ cost: 25, when_over: 'charge' })] })

  test('is below zero where an operator looks, and 0 where a caller does', () => {
    const engine = engineWith(CHARGE)
    expect(decide(engine)).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
    const inspection = engine.inspect({ policy: 'p', rule: 'r', values: {} }) as Inspection
    expect(inspection).toMatchObject({ ok: true, counters: [{ limit: 10, level: -15, remaining: 0 }] })
    expect(decide(engine)).toMatchObject({ action: 'reject', canRetry: true, requested: 25, available: 0, limit: { remaining: 0 } })
  })

  test('is explained as it would be decided', () => {
    const engine = engineWith(CHARGE)
    const view = new PlainRequestView({ method: 'GET', uri: '/' })
    expect(engine.explain(view)).toMatchObject({
      decision: { action: 'allow', limit: { remaining: 0 } },
      policies: [{ rules: [{ cost: 25, counters: [{ level: 10, waitMs: 0 }] }] }],
    })
    decide(engine)
    expect(engine.explain(view)).toMatchObject({
      decision: { action: 'reject' },
      policies: [{ rules: [{ cost: 25, counters: [{ level: -15, waitMs: expect.any(Number) }] }] }],
    })
  })
})

test('a repeated cost field is explained as the refusal that it is', () => {
  const engine = engineWith(
    policy('p', { rules: [rateRule('r', [], { rate: '10/minute', cost: { header: 'x-cost' } }), bucketRule('other', [], 5)] }),
  )
  const view = new PlainRequestView({ method: 'GET', uri: '/', headers: { 'X-Cost': ['1', '2'] } })
  expect(engine.explain(view)).toMatchObject({
    decision: { action: 'refuse', reason: 'repeated_descriptor' },
    policies: [
      {
        rules: [
          { why: 'repeated_descriptor', cost: undefined, counters: [] },
          { why: undefined, cost: 1 },
        ],
      },
    ],
  })
})

function engineWith(...policies: PolicyText[]): Engine {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock: new ManualClock() })
  engine.activate(compileBundle(parsed.bundle))
  return engine
}

function decide(engine: Engine, options: OpenOptions = {}, headers: Record<string, string> = {}): Decision {
  return engine.decide(new PlainRequestView({ method: 'GET', uri: '/', headers }), options) as Decision
}
