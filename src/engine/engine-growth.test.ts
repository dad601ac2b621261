import { describe, expect, test } from 'vitest'
import { budgetRule, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import {
  BLOCK,
  callerDigest,
  override,
  planOf,
  ruleOf,
  setOverrides,
  TWICE,
  UNLIMITED,
} from '../../test/support/overrides/overridden-engine.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import type { OverrideChange, OverrideSubject } from '../overrides/override.ts'
import { PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed, Decision } from './decision.ts'
import { Engine } from './engine.ts'
import { newOpenReservationsBuffer, OpenReservations } from './open-reservations.ts'
import { type ReservedCharge, reservedAmount } from './reservation.ts'

const KEY = 'header:x-key'
const HOUR_MS = 3_600_000

describe('a reservation that grows', () => {
  test('takes from the day and from the minute', () => {
    const service = newService(llm({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const charge = service.reserve(500)
    expect(service.grow(charge, 300)).toBe('granted')
    expect(service.levels()).toEqual([5200, 8200])
    expect(reservedAmount(charge)).toBe(800)
  })

  test('is settled whole: what was not used goes back, and what was used beyond it is charged', () => {
    for (const [used, left] of [
      [0, 9000],
      [600, 8400],
      [800, 8200],
      [1200, 7800],
    ] as const) {
      const service = newService(llm({ tokens_per_minute: 9000, tokens_per_day: 9000 }))
      const charge = service.reserve(500)
      service.grow(charge, 300)
      void service.engine.settle(charge, used)
      expect(service.levels()).toEqual([left, left])
    }
  })

  test('is refused by the day, whole, and takes nothing then', () => {
    const service = newService(llm({ tokens_per_minute: 6000, tokens_per_day: 1000 }))
    const charge = service.reserve(500)
    expect(service.grow(charge, 501)).toBe('refused')
    expect(service.levels()).toEqual([5500, 500])
    expect(reservedAmount(charge)).toBe(500)
    expect(service.grow(charge, 500)).toBe('granted')
  })

  test('is not refused by the minute, which is charged along', () => {
    const service = newService(llm({ tokens_per_minute: 600, tokens_per_day: 9000 }))
    const charge = service.reserve(500)
    expect([service.grow(charge, 400), service.grow(charge, 400)]).toEqual(['granted', 'granted'])
    expect(service.levels()).toEqual([-700, 7700])
    void service.engine.settle(charge, 550)
    expect(service.levels()).toEqual([50, 8450])
  })

  test('of money takes from its budget', () => {
    const service = newService(policy('p', { rules: [budgetRule('r', [KEY], { budget: 0.001, prices: 'table' })] }))
    const charge = service.reserve(500)
    expect(service.grow(charge, 400_000)).toBe('granted')
    expect(service.grow(charge, 200_000)).toBe('refused')
    expect(service.grow(charge, 100_000)).toBe('granted')
    expect(service.levels()).toEqual([0])
  })

  test('warns of the share that it reaches', () => {
    const config = { budget: 0.001, prices: 'table', warn_at_percent: [80, 95] }
    const service = newService(policy('p', { rules: [budgetRule('r', [KEY], config)] }))
    const charge = service.reserve(500)
    for (const nano of [299_999, 1, 100_000]) service.grow(charge, nano)
    expect(service.warnings).toEqual([80])
  })

  test('takes from the day of its moment, and each day gets its own back', () => {
    const service = newService(llm({ tokens_per_day: 9000 }))
    service.clock.advance(12 * HOUR_MS - 1000)
    const charge = service.reserve(500)
    service.grow(charge, 300)
    service.clock.advance(1000)
    expect(service.levels()).toEqual([9000])
    service.grow(charge, 200)
    expect(service.levels()).toEqual([8800])
    void service.engine.settle(charge, 850)
    expect(service.levels()).toEqual([8950])
    service.clock.setBack(1000)
    expect(service.levels()).toEqual([8200])
  })

  test('gets nothing back of what it took before a reset, and all of what it took after it', () => {
    const service = newService(llm({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const charge = service.reserve(500)
    service.grow(charge, 300)
    service.clock.advance(10)
    void service.engine.reset({ policy: 'p', rule: 'r', values: { [KEY]: 'a' } })
    service.clock.advance(10)
    service.grow(charge, 200)
    expect(service.levels()).toEqual([5800, 8800])
    void service.engine.settle(charge, 100)
    expect(service.levels()).toEqual([6000, 9000])
  })

  test('in a shadow policy takes from its own counters', () => {
    const service = newService(llm({ tokens_per_day: 9000 }), { ...llm({ tokens_per_day: 1000 }, 'shadow'), id: 's' })
    const charge = service.reserve(500, 1)
    expect(service.grow(charge, 501)).toBe('refused')
    expect(service.grow(charge, 500)).toBe('granted')
    expect([service.levels(), service.levels('s')]).toEqual([[8500], [0]])
  })

  test('stays bounded however often it grows', () => {
    const service = newService(llm({ tokens_per_day: 9000 }))
    const charge = service.reserve(10)
    for (let i = 0; i < 100; i++) {
      service.clock.advance(1000)
      expect(service.grow(charge, 10)).toBe('granted')
    }
    expect(charge.growth!.all.length).toBe(16)
    expect(service.levels()).toEqual([7990])
    void service.engine.settle(charge, 5)
    expect(service.levels()).toEqual([8995])
  })
})

describe('whose limit applies', () => {
  test('is that of the active plan', () => {
    const service = newService(llm({ tokens_per_day: 1000 }))
    const charge = service.reserve(900)
    expect(service.grow(charge, 200)).toBe('refused')
    service.load(llm({ tokens_per_day: 2000 }))
    expect(service.grow(charge, 200)).toBe('granted')
    service.load(llm({ tokens_per_day: 1200 }))
    expect(service.grow(charge, 200)).toBe('refused')
    void service.engine.settle(charge, 1000)
    expect(service.levels()).toEqual([200])
  })

  test.each<[string, PolicyText[]]>([
    ['the rule is gone', [policy('p', { rules: [llmRule('other', [KEY], { tokens_per_day: 1000 })] })]],
    ['the rule has no day any more', [llm({ tokens_per_minute: 1000 })]],
    ['the policy is a shadow policy now', [llm({ tokens_per_minute: 1000, tokens_per_day: 1000 }, 'shadow')]],
  ])('is none where %s', (_, policies) => {
    const service = newService(llm({ tokens_per_minute: 1000, tokens_per_day: 1000 }))
    const charge = service.reserve(900)
    service.load(...policies)
    expect(service.grow(charge, 5000)).toBe('not_enforced')
    expect(reservedAmount(charge)).toBe(900)
  })

  test('is that of an override', () => {
    const service = newService(llm({ tokens_per_day: 1000 }))
    const charge = service.reserve(900)
    service.set(ruleOf(), TWICE)
    expect(service.grow(charge, 1100)).toBe('granted')
    expect(service.grow(charge, 1)).toBe('refused')
  })

  test.each<[string, OverrideSubject, OverrideChange]>([
    ['lifts the rule', ruleOf(), UNLIMITED],
    ['lifts the rule for the caller', ruleOf({ [KEY]: 'a' }), UNLIMITED],
    ['blocks the rule', ruleOf(), BLOCK],
    ['puts all policies in shadow mode', 'all_policies', { kind: 'shadow' }],
  ])('is none while an override %s', (_, subject, change) => {
    const service = newService(llm({ tokens_per_day: 1000 }))
    const charge = service.reserve(900)
    service.set(subject, change)
    expect(service.grow(charge, 5000)).toBe('not_enforced')
    service.clock.advance(HOUR_MS)
    expect(service.grow(charge, 5000)).toBe('refused')
    expect(service.grow(charge, 100)).toBe('granted')
  })
})

describe('an answer that comes after the settlement', () => {
  async function growing(used: number) {
    const store = new AsyncStore()
    const service = newServiceOn(store, llm({ tokens_per_minute: 6000, tokens_per_day: 1000 }))
    const charge = chargeOf(await later(store, service.decide(500)))
    const growth = service.engine.grow(charge, used)
    const settled = service.engine.settle(charge, 450)
    return { store, service, charge, growth, settled }
  }

  test('that grants gives all of it back', async () => {
    const { store, service, growth, settled } = await growing(300)
    expect(await later(store, growth)).toBe('too_late')
    await settled
    expect(await later(store, service.levelsLater())).toEqual([5550, 550])
  })

  test('is awaited, with what it gives back, by who waits until all is settled', async () => {
    const { store, service } = await growing(300)
    await later(store, service.engine.settled())
    expect(await later(store, service.levelsLater())).toEqual([5550, 550])
    await service.engine.settled()
  })

  test('that refuses does nothing', async () => {
    const { store, service, growth, settled } = await growing(5000)
    expect(await later(store, growth)).toBe('refused')
    await settled
    expect(await later(store, service.levelsLater())).toEqual([5550, 550])
  })
})

test('a store that is unavailable grants nothing', () => {
  const store = newEmbeddedStore(64 * 1024)
  const service = newServiceOn(store, llm({ tokens_per_day: 1000 }))
  const charge = service.reserve(100)
  const { takeAll } = store
  store.takeAll = (() => 'unavailable') as never
  expect(service.grow(charge, 100)).toBe('unavailable')
  store.takeAll = takeAll
  expect([reservedAmount(charge), service.levels()]).toEqual([100, [900]])
})

describe('what a reservation has grown by', () => {
  test('is open until it is settled, in the day that it was taken from', () => {
    const { service, open, sum } = openService()
    const charge = service.reserve(300)
    const firstMs = service.clock.wallMs()
    service.grow(charge, 200)
    expect(sum(firstMs)).toBe(500)
    service.clock.advance(13 * HOUR_MS)
    const secondMs = service.clock.wallMs()
    service.grow(charge, 100)
    expect([sum(firstMs), sum(secondMs)]).toEqual([500, 100])
    void service.engine.settle(charge, 350)
    expect([sum(firstMs), sum(secondMs)]).toEqual([0, 0])
    expect(open.waitMs(service.engine.plan!.counters[0]!)).toBe(10_000)
  })

  test('is no longer open when it has been dropped', () => {
    const { service, sum } = openService()
    const charge = service.reserve(300)
    const times = [service.clock.wallMs()]
    for (let day = 1; day <= 20; day++) {
      service.clock.advance(24 * HOUR_MS)
      times.push(service.clock.wallMs())
      service.grow(charge, 100)
    }
    expect(times.map(sum)).toEqual([...Array<number>(5).fill(0), ...Array<number>(16).fill(100)])
    void service.engine.settle(charge, 350)
    expect(times.map(sum)).toEqual(Array<number>(21).fill(0))
  })

  test('shortens the wait of those that it rejects', () => {
    const { service } = openService()
    const charge = service.reserve(300)
    service.grow(charge, 500)
    expect(service.decide(700)).toMatchObject({ action: 'reject', awaitsSettlement: true })
    void service.engine.settle(charge, 300)
    expect(service.decide(700)).toMatchObject({ action: 'allow' })
  })

  function openService() {
    const clock = new ManualClock()
    const open = new OpenReservations({ memory: newOpenReservationsBuffer(1), worker: 1, hashKey: [3, 4], clock })
    const service = newServiceOn(newEmbeddedStore(64 * 1024), llm({ tokens_per_day: 1000 }), [], clock, open)
    const sum = (wallMs: number): number => open.sumOf(service.engine.plan!.counters[0]!, ['a'], 0, 1, wallMs)
    return { service, open, sum }
  }
})

async function later<T>(store: AsyncStore, promise: T | Promise<T>): Promise<T> {
  await store.answerAll()
  return promise
}

function llm(config: object, mode = 'enforce'): PolicyText {
  return policy('p', { mode, rules: [llmRule('r', [KEY], config)] })
}

function chargeOf(decision: Decision, index = 0): ReservedCharge {
  expect(decision).toMatchObject({ action: 'allow' })
  return (decision as Allowed).reservation!.charges[index]!
}

function newService(first: PolicyText, ...others: PolicyText[]) {
  return newServiceOn(newEmbeddedStore(64 * 1024), first, others)
}

function newServiceOn(
  store: CounterStore,
  first: PolicyText,
  others: readonly PolicyText[] = [],
  clock = new ManualClock(),
  openReservations?: OpenReservations,
) {
  const warnings: number[] = []
  const onBudgetWarning = ({ percent }: { percent: number }) => void warnings.push(percent)
  const engine = new Engine({ store, clock, callerDigest, onBudgetWarning, openReservations })
  const inspect = (id: string) => engine.inspect({ policy: id, rule: 'r', values: { [KEY]: 'a' } })
  const levelsIn = (found: Awaited<ReturnType<typeof inspect>>): number[] => {
    if (!found.ok) throw new Error(found.error)
    return found.counters.map(({ level }) => level)
  }
  const service = {
    engine,
    clock,
    warnings,
    load: (...policies: PolicyText[]) => engine.activate(planOf(...policies)),
    set(subject: OverrideSubject, change: OverrideChange): void {
      clock.advance(1)
      setOverrides(engine, [override(subject, change, clock)])
    },
    decide(tokens: number): Decision | Promise<Decision> {
      const view = new PlainRequestView({ method: 'POST', uri: '/chat', headers: { 'x-key': 'a' } })
      return engine.decide(view, { body: { promptTokens: 0, requestedTokens: tokens, choices: 1, isStream: false, model: undefined } })
    },
    reserve: (tokens: number, index?: number): ReservedCharge => chargeOf(service.decide(tokens) as Decision, index),
    grow: (charge: ReservedCharge, amount: number) => engine.grow(charge, amount),
    levels: (id = 'p'): number[] => levelsIn(inspect(id) as Awaited<ReturnType<typeof inspect>>),
    levelsLater: async (): Promise<number[]> => levelsIn(await inspect('p')),
  }
  service.load(first, ...others)
  return service
}
