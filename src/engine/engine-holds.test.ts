import { expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed, Decision } from './decision.ts'
import { Engine } from './engine.ts'
import type { Explanation } from './explain/explanation.ts'
import type { Inspection } from './explain/inspection.ts'
import { holdMs, type ReservedCharge } from './reservation.ts'

const HOLD_S = 8

test('an allowed request has a hold to release, and may have tokens to settle besides', () => {
  const service = newService(
    policy('p', { rules: [concurrencyRule('c', ['header:x-key'], 2, HOLD_S), llmRule('t', [], { tokens_per_minute: 6000 })] }),
  )
  const { reservation, limit } = service.allow({ promptTokens: 5 })
  expect(reservation!.charges).toMatchObject([{ rule: { name: 't' } }])
  expect(reservation!.holds).toMatchObject([{ rule: { name: 'c' }, amount: 1, values: ['a'] }])
  expect(holdMs(reservation!.holds[0]!)).toBe(HOLD_S * 1000)
  expect(limit).toMatchObject({ limitText: '2', remaining: 1, resetMs: 1000 })
})

test('a reject takes no place, and nothing of the other rules either', () => {
  const service = newService(policy('p', { rules: [bucketRule('b', [], 10, 0.0001), concurrencyRule('c', [], 1, HOLD_S)] }))
  const { reservation } = service.allow()
  for (let i = 0; i < 3; i++) {
    expect(service.decide()).toMatchObject({
      action: 'reject',
      reason: 'concurrency_exceeded',
      canRetry: true,
      requested: 1,
      available: 0,
      limit: { limitText: '1', remaining: 0, resetMs: 1000 },
    })
  }
  service.release(reservation!.holds[0]!)
  expect(service.allow().limit).toMatchObject({ rule: { name: 'c' }, remaining: 0 })
  expect(service.inspect('b').remaining).toBe(8)
})

test('a hold is renewed, and the renewed one is released', async () => {
  const service = newService(policy('p', { rules: [concurrencyRule('c', [], 1, HOLD_S)] }))
  let [hold] = service.allow().reservation!.holds
  for (let i = 0; i < 5; i++) {
    service.clock.advance(4000)
    hold = { ...hold!, taken: await service.engine.renew(hold!) }
    expect(service.decide().action).toBe('reject')
  }
  service.release(hold!)
  expect(service.inspect('c')).toMatchObject({ kind: 'in_flight', limit: 1, remaining: 1, resetMs: 0 })
})

test('a hold that is not renewed ends by itself', () => {
  const service = newService(policy('p', { rules: [concurrencyRule('c', [], 1, HOLD_S)] }))
  service.allow()
  service.clock.advance(HOLD_S * 1000)
  service.allow()
})

test('holds outlive their plan: they are renewed and released under the next, and where their rule is gone', async () => {
  const rule = (max: number, holdSeconds = HOLD_S) => policy('p', { rules: [concurrencyRule('c', [], max, holdSeconds)] })
  const service = newService(rule(2))
  const [first] = service.allow().reservation!.holds
  service.activate(rule(1))
  expect(service.decide().action).toBe('reject')
  service.activate()
  service.clock.advance(4000)
  const renewed = { ...first!, taken: await service.engine.renew(first!) }
  service.clock.advance(6000)
  service.activate(rule(1))
  expect(service.decide().action).toBe('reject')
  service.activate(rule(1, HOLD_S + 1))
  service.allow()
  service.release(renewed)
  service.activate(rule(1))
  service.allow()
})

test('a shadow rule holds on counters of its own, and only reports', () => {
  const rules = [concurrencyRule('c', [], 1, HOLD_S)]
  const service = newService(policy('live', { rules: [concurrencyRule('c', [], 3, HOLD_S)] }), policy('trial', { mode: 'shadow', rules }))
  const [held, shadowed] = service.allow().reservation!.holds
  const second = service.allow()
  expect(second).toMatchObject({ reason: 'concurrency_exceeded', limit: { rule: { policy: { id: 'live' } }, remaining: 1 } })
  expect(second.reservation!.holds).toHaveLength(1)
  service.release(held!)
  service.release(shadowed!)
  expect(service.allow().wouldRejects).toEqual([])
})

test('a question at no cost takes no place, and has none to release', () => {
  const service = newService(policy('p', { rules: [concurrencyRule('c', [], 1, HOLD_S)] }))
  expect(service.decide(undefined, 0)).toMatchObject({ action: 'allow', reservation: undefined, limit: { remaining: 1 } })
})

test('an explanation names the places that are left, and takes none', () => {
  const service = newService(policy('p', { rules: [concurrencyRule('c', [], 1, HOLD_S)] }))
  const explain = () => service.engine.explain(service.view) as Explanation
  expect(explain().policies[0]!.rules[0]).toMatchObject({ cost: 1, counters: [{ kind: 'in_flight', remaining: 1, waitMs: 0 }] })
  service.allow()
  expect(explain()).toMatchObject({ decision: { action: 'reject', reason: 'concurrency_exceeded' } })
  expect(explain().policies[0]!.rules[0]).toMatchObject({ counters: [{ remaining: 0, waitMs: 1000, resetMs: 1000 }] })
})

test('a reset frees all places, and what was in flight before it counts no more', async () => {
  const service = newService(policy('p', { rules: [concurrencyRule('c', [], 1, HOLD_S)] }))
  const [hold] = service.allow().reservation!.holds
  service.clock.advance(10)
  const reset = (await service.engine.reset({ policy: 'p', rule: 'c', values: {} })) as Inspection & { ok: true }
  expect(reset.counters).toMatchObject([{ remaining: 1 }])
  service.clock.advance(4000)
  const renewed = { ...hold!, taken: await service.engine.renew(hold!) }
  service.allow()
  service.release(renewed)
  expect(service.decide().action).toBe('reject')
})

function newService(...policies: readonly PolicyText[]) {
  const clock = new ManualClock()
  const engine = new Engine({ store: newEmbeddedStore(256 * 1024), clock })
  const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat', headers: { 'x-key': 'a' } })
  let version = 1
  const service = {
    clock,
    engine,
    view,
    activate(...next: readonly PolicyText[]): void {
      const parsed = parseBundle(JSON.stringify(bundle(version++, ...next)))
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
      engine.activate(compileBundle(parsed.bundle))
    },
    decide(body?: { promptTokens: number }, given?: number): Decision {
      const read = body && { requestedTokens: undefined, choices: 1, isStream: false, model: undefined, ...body }
      return engine.decide(view, { body: read, given }) as Decision
    },
    allow(body?: { promptTokens: number }): Allowed {
      const decision = service.decide(body)
      expect(decision.action).toBe('allow')
      return decision as Allowed
    },
    release(hold: ReservedCharge): void {
      void engine.settle(hold, 0)
    },
    inspect(rule: string) {
      const inspection = engine.inspect({ policy: 'p', rule, values: {} }) as Inspection & { ok: true }
      return inspection.counters[0]!
    },
  }
  service.activate(...policies)
  return service
}
