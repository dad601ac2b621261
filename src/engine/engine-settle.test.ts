import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { PlainRequestView } from '../request/view.ts'
import { ChargeResults, Charges, type Counter } from '../store/charges.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { MIN_TABLE_BYTES } from '../store/table/table-layout.ts'
import type { Allowed } from './decision.ts'
import { Engine } from './engine.ts'
import type { Reservation } from './reservation.ts'

const HOUR_MS = 3_600_000

describe('a settlement', () => {
  test('gives what was not used back to the minute and the day', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const reservation = service.reserve(500)
    expect(service.levels()).toEqual([5500, 8500])
    service.settle(reservation, 120)
    expect(service.levels()).toEqual([5880, 8880])
  })

  test('gives all of it back where nothing was used', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    service.settle(service.reserve(500), 0)
    expect(service.levels()).toEqual([6000, 9000])
  })

  test('charges what was used beyond it, below zero too', () => {
    const service = newService(budget({ tokens_per_minute: 600, tokens_per_day: 9000 }))
    service.settle(service.reserve(500), 800)
    expect(service.levels()).toEqual([-200, 8200])
  })

  test('charges where nothing was reserved', () => {
    const service = newService(budget({ tokens_per_minute: 600, tokens_per_day: 9000 }))
    service.settle(service.reserve(0), 30)
    expect(service.levels()).toEqual([570, 8970])
  })

  test('of what was used to the token asks no store', async () => {
    const store = new AsyncStore()
    const service = newServiceOn(store, budget({ tokens_per_minute: 600 }))
    const { reservation } = (await later(store, service.decide(500))) as Allowed
    expect(service.settle(reservation!, 500)).toBeUndefined()
    expect(store.waiting).toBe(0)
  })

  test('comes after a refill, and never lifts a minute above its burst', () => {
    const service = newService(budget({ tokens_per_minute: 600, burst_tokens: 1000, tokens_per_day: 9000 }))
    const reservation = service.reserve(900)
    service.clock.advance(30_000)
    service.settle(reservation, 100)
    expect(service.levels()).toEqual([1000, 8900])
  })

  test('is the caller’s own, and each rule’s own', () => {
    const rules = [
      llmRule('one', ['header:x-key'], { tokens_per_minute: 6000, max_completion_tokens: 100 }),
      llmRule('two', ['header:x-key'], { tokens_per_day: 9000, max_completion_tokens: 200 }),
      bucketRule('requests', ['header:x-key'], 10),
    ]
    const service = newService(policy('p', { rules }))
    const mine = service.reserve(500)
    service.reserve(500, 'b')
    service.engine.settle(mine.charges[1]!, 50)
    expect(service.levels()).toEqual([5900, 8950, 9])
    service.engine.settle(mine.charges[0]!, 30)
    expect(service.levels()).toEqual([5970, 8950, 9])
    expect(service.levels('b')).toEqual([5900, 8800, 9])
  })

  test('of a shadow policy’s hold touches its own counters alone', () => {
    const service = newService(budget({ tokens_per_minute: 6000 }), {
      ...budget({ tokens_per_minute: 6000 }, 'shadow'),
      id: 's',
    })
    const reservation = service.reserve(500)
    service.engine.settle(reservation.charges[1]!, 100)
    expect(service.levels()).toEqual([5500, 5900])
    service.engine.settle(reservation.charges[0]!, 800)
    expect(service.levels()).toEqual([5200, 5900])
  })

  test('knows its caller after other requests have come and gone', () => {
    const service = newService(budget({ tokens_per_minute: 6000 }))
    const reservation = service.reserve(500)
    for (const caller of ['b', 'c', 'd']) service.reserve(10, caller)
    service.settle(reservation, 0)
    expect(['a', 'b', 'c', 'd'].map((caller) => service.levels(caller)[0])).toEqual([6000, 5990, 5990, 5990])
  })
})

describe('a settlement after midnight', () => {
  test.each([
    ['gives back', 0],
    ['charges', 2000],
  ])('%s to the minute, and to no day but its own', (_, used) => {
    const service = newService(budget({ tokens_per_minute: 600, burst_tokens: 100_000, tokens_per_day: 200_000 }))
    service.clock.advance(12 * HOUR_MS - 1000)
    const reservation = service.reserve(1500)
    service.clock.advance(1000)
    service.reserve(100)
    service.settle(reservation, used)
    expect(service.levels()).toEqual([100_000 - 1500 + 10 - 100 + (1500 - used), 199_900])
  })

  test('is one before it when the day is the same still', () => {
    const service = newService(budget({ tokens_per_day: 9000 }))
    const reservation = service.reserve(500)
    service.clock.advance(12 * HOUR_MS - 1)
    service.settle(reservation, 100)
    expect(service.levels()).toEqual([8900])
    service.clock.advance(1)
    expect(service.levels()).toEqual([9000])
  })
})

test('a settlement for a day that is over and forgotten takes no slot from anybody', () => {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const service = newServiceOn(store, budget({ tokens_per_day: 9000 }))
  const reservation = service.reserve(500)
  service.clock.advance(12 * HOUR_MS)
  for (let i = 0; i < 32; i++) service.reserve(500, `caller${i}`)
  service.settle(reservation, 2000)
  expect(store.stats()).toEqual({ slots: 32, occupiedSlots: 32, forcedEvictions: 0 })
})

describe('a settlement after a new bundle', () => {
  test('with other limits goes by those of now', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const reservation = service.reserve(1000)
    service.load(budget({ tokens_per_minute: 600, burst_tokens: 5500, tokens_per_day: 8000 }))
    service.settle(reservation, 0)
    expect(service.levels()).toEqual([5500, 8000])
    service.reserve(5500)
    service.clock.advance(1000)
    expect(service.levels()).toEqual([10, 2500])
  })

  test('refills at the old rate until it came', () => {
    const service = newService(budget({ tokens_per_minute: 30_000 }))
    const reservation = service.reserve(30_000)
    service.clock.advance(400) // 200 at the old rate
    service.load(budget({ tokens_per_minute: 60_000 }))
    service.clock.advance(1000) // 1000 at the new one
    service.settle(reservation, 29_900)
    expect(service.levels()).toEqual([200 + 1000 + 100])
  })

  test('with the rule in another place goes to the rule, not the place', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const reservation = service.reserve(1000)
    service.load(
      policy('first', { rules: [bucketRule('r', ['header:x-key'], 7)] }),
      budget({ tokens_per_day: 9000, tokens_per_minute: 6000 }),
    )
    service.settle(reservation, 400)
    expect(service.levels()).toEqual([7, 5600, 8600])
  })

  test('that gave the rule a daily limit takes nothing from it that was not taken before', () => {
    const service = newService(budget({ tokens_per_minute: 6000 }))
    const reservation = service.reserve(1000)
    service.load(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    service.settle(reservation, 5000)
    expect(service.levels()).toEqual([1000, 9000])
  })

  test('that took a limit away settles that one too, for when it comes back', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const reservation = service.reserve(1000)
    service.load(budget({ tokens_per_minute: 6000 }))
    service.settle(reservation, 400)
    expect(service.levels()).toEqual([5600])
    service.load(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    expect(service.levels()).toEqual([5600, 8600])
  })

  test('without the rule settles it all the same, for when it comes back', () => {
    const service = newService(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const [one, two] = [service.reserve(1000), service.reserve(1000)]
    service.load()
    service.settle(one, 300)
    service.settle(two, 2000)
    service.load(budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    expect(service.levels()).toEqual([3700, 6700])
  })

  test('that made the policy a shadow goes to the counters that it was taken from', () => {
    const service = newService(budget({ tokens_per_minute: 6000 }))
    const reservation = service.reserve(1000)
    service.load(budget({ tokens_per_minute: 6000 }, 'shadow'))
    service.settle(reservation, 4000)
    expect(service.levels()).toEqual([6000])
    service.load(budget({ tokens_per_minute: 6000 }))
    expect(service.levels()).toEqual([2000])
  })
})

describe('on a store that answers later', () => {
  test('a reservation is made when it has answered, under the plan and the day of the request', async () => {
    const store = new AsyncStore()
    const service = newServiceOn(store, budget({ tokens_per_minute: 30_000, tokens_per_day: 9000 }))
    service.clock.advance(12 * HOUR_MS - 1)
    const [one, two] = [service.decide(1000), service.decide(600, 'b')]
    service.clock.advance(1)
    const first = policy('first', { rules: [bucketRule('r', ['header:x-key'], 7)] })
    service.load(first, budget({ tokens_per_minute: 30_000, tokens_per_day: 20_000 }))
    await store.answerAll()
    const [mine, other] = [await one, await two].map((decision) => (decision as Allowed).reservation!)
    expect(mine!.charges).toMatchObject([{ amount: 1000, values: ['a'] }])
    expect(other!.charges).toMatchObject([{ amount: 600, values: ['b'] }])
    expect(await later(store, service.levelsLater())).toEqual([7, 29_000.5, 20_000])
    await later(store, service.settle(mine!, 3000))
    expect(await later(store, service.levelsLater())).toEqual([7, 27_000.5, 20_000])
  })

  test('a settlement is done when it has answered', async () => {
    const store = new AsyncStore()
    const service = newServiceOn(store, budget({ tokens_per_minute: 6000, tokens_per_day: 9000 }))
    const { reservation } = (await later(store, service.decide(1000))) as Allowed
    const settled = service.settle(reservation!, 250)
    expect(settled).toBeInstanceOf(Promise)
    expect(await later(store, settled)).toBeUndefined()
    expect(await later(store, service.levelsLater())).toEqual([5750, 8750])
  })

  test('shadow policies hold what they took, each when the store has answered it', async () => {
    const store = new AsyncStore()
    const shadows = ['s', 't'].map((id) => ({ ...budget({ tokens_per_minute: 6000 }, 'shadow'), id }))
    const service = newServiceOn(store, budget({ tokens_per_minute: 6000 }), ...shadows)
    const decisions = [service.decide(4000), service.decide(1000, 'b')]
    await store.answerAll((count) => count - 1)
    const reservations = (await Promise.all(decisions)).map((decision) => (decision as Allowed).reservation!)
    const told = reservations.map(({ charges }) => charges.map(({ rule, amount, values }) => `${rule.policy.id} ${amount} ${values}`))
    expect(told).toEqual([
      ['p 4000 a', 's 4000 a', 't 4000 a'],
      ['p 1000 b', 's 1000 b', 't 1000 b'],
    ])
  })

  test('a settlement that breaks says so', async () => {
    const store = new AsyncStore()
    store.settleAll = () => Promise.reject(new Error('connection lost'))
    const service = newServiceOn(store, budget({ tokens_per_minute: 6000 }))
    const { reservation } = (await later(store, service.decide(1000))) as Allowed
    await expect(service.settle(reservation!, 0)).rejects.toThrow('connection lost')
  })
})

async function later<T>(store: AsyncStore, promise: T | Promise<T>): Promise<T> {
  await store.answerAll()
  return promise
}

function budget(config: object, mode = 'enforce'): PolicyText {
  return policy('p', { mode, rules: [llmRule('budget', ['header:x-key'], config)] })
}

function newService(...policies: PolicyText[]) {
  return newServiceOn(newEmbeddedStore(64 * 1024), ...policies)
}

function newServiceOn(store: CounterStore, ...policies: PolicyText[]) {
  const clock = new ManualClock()
  // What the engine has opened last, by identity: the tests look at the same counters.
  const opened = new Map<string, Counter>()
  const engine = new Engine({
    clock,
    store: {
      open(spec) {
        const counter = store.open(spec)
        opened.set(JSON.stringify(spec.identity), counter)
        return counter
      },
      takeAll: (...question) => store.takeAll(...question),
      checkAll: (...question) => store.checkAll(...question),
      settleAll: (...question) => store.settleAll(...question),
      locatorsOf: (...question) => store.locatorsOf(...question),
      settleLocated: (...question) => store.settleLocated(...question),
      renewLocated: (...question) => store.renewLocated(...question),
      renewAll: (...question) => store.renewAll(...question),
      resetAll: (...question) => store.resetAll(...question),
      stats: () => store.stats(),
    },
  })
  function look(caller: string) {
    const [charges, results] = [new Charges(), new ChargeResults()]
    for (const { identity } of engine.plan!.counters) {
      charges.addValue(caller)
      charges.add(opened.get(JSON.stringify(identity))!, 0)
    }
    const looked = store.takeAll(charges, results, clock.nowMs(), clock.wallMs())
    return { looked, levels: () => [...results.levels.subarray(0, charges.length)] }
  }
  const service = {
    engine,
    clock,
    load(...list: PolicyText[]): void {
      const parsed = parseBundle(JSON.stringify(bundle(1, ...list)))
      if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
      engine.activate(compileBundle(parsed.bundle))
    },
    decide(tokens: number, caller = 'a') {
      // Nothing is reserved only where no text is generated.
      const view = new PlainRequestView({ method: 'POST', uri: tokens > 0 ? '/chat' : '/embeddings', headers: { 'x-key': caller } })
      return engine.decide(view, {
        body: { promptTokens: 0, requestedTokens: tokens, choices: 1, isStream: false, model: undefined },
      })
    },
    reserve(tokens: number, caller = 'a'): Reservation {
      const decision = service.decide(tokens, caller)
      expect(decision).toMatchObject({ action: 'allow' })
      return (decision as Allowed).reservation!
    },
    settle(reservation: Reservation, used: number) {
      return engine.settle(reservation.charges[0]!, used)
    },
    /** What a caller has left, counter after counter of the bundle. */
    levels(caller = 'a'): number[] {
      return look(caller).levels()
    },
    async levelsLater(caller = 'a'): Promise<number[]> {
      const { looked, levels } = look(caller)
      await looked
      return levels()
    },
  }
  service.load(...policies)
  return service
}
