import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Clock } from '../time/clock.ts'
import type { Allowed } from './decision.ts'
import { Engine } from './engine.ts'

const NAME = { policy: 'p', rule: 'budget', values: {} }
const BODY = { promptTokens: 0, requestedTokens: 100, choices: 1, isStream: false, model: undefined }
const NOON_MS = Date.UTC(2026, 0, 15, 12)

/** A budget of 1,000 a day, of which each request reserves 100, by clocks like the system's: the wall clock shows whole milliseconds. */
class Budget {
  nowMs = 1000
  wallMs = NOON_MS
  readonly engine: Engine

  constructor() {
    const clock: Clock = { nowMs: () => this.nowMs, wallMs: () => Math.floor(this.wallMs) }
    this.engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock })
    const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [llmRule('budget', [], { tokens_per_day: 1000 })] }))))
    if (!parsed.ok) throw new Error('no bundle')
    this.engine.activate(compileBundle(parsed.bundle))
  }

  pass(ms: number): void {
    this.nowMs += ms
    this.wallMs += ms
  }

  take(): Allowed {
    return this.engine.decide(new PlainRequestView({ method: 'POST', uri: '/v1/chat' }), { body: BODY }) as Allowed
  }

  giveBack({ reservation }: Allowed): void {
    for (const hold of reservation!.charges) void this.engine.settle(hold, 0)
  }

  get left(): number {
    const found = this.engine.inspect(NAME)
    if (found instanceof Promise || !found.ok) throw new Error('no counter')
    return found.counters[0]!.level
  }
}

const WITHIN_A_MILLISECOND = [0, 0.2, 0.5, 0.7, 0.95]

test('what was taken before a reset does not go back to it, however short before', () => {
  for (const first of WITHIN_A_MILLISECOND) {
    for (const second of WITHIN_A_MILLISECOND) {
      const budget = new Budget()
      budget.take() // reads the wall clock, and what follows goes on from there
      budget.pass(first)
      const before = budget.take()
      budget.pass(second)
      budget.engine.reset(NAME)
      budget.pass(5)
      budget.take()
      budget.giveBack(before)
      expect(budget.left).toBe(900)
    }
  }
})

test('what was taken after a reset goes back, however short after', () => {
  for (const first of WITHIN_A_MILLISECOND) {
    for (const second of WITHIN_A_MILLISECOND) {
      const budget = new Budget()
      budget.pass(first)
      budget.engine.reset(NAME)
      budget.pass(second)
      const after = budget.take()
      budget.pass(5)
      budget.giveBack(after)
      expect(budget.left).toBe(1000)
    }
  }
})

test('a wall clock that is set back after a reset takes nothing from anybody', () => {
  const budget = new Budget()
  budget.engine.reset(NAME)
  budget.pass(5)
  budget.wallMs -= 2000
  for (let i = 0; i < 30; i++) {
    const taken = budget.take()
    expect(taken.action).toBe('allow')
    budget.pass(3)
    budget.giveBack(taken)
  }
  expect(budget.left).toBe(1000)
  const before = budget.take()
  budget.engine.reset(NAME)
  budget.take()
  budget.giveBack(before)
  expect(budget.left).toBe(900)
})
