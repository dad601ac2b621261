import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BudgetCost } from '../../src/costs/llm-costs.ts'
import { microOf, nanoOf, readNano } from '../../src/costs/money.ts'
import { ModelPrice, PriceTable } from '../../src/costs/price-table.ts'
import { settledBy } from '../../src/costs/settling-record.ts'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { WINDOW, type WindowLimit } from '../../src/limiter/limit.ts'
import { tokenCounts } from '../../src/llm/usage.ts'
import { ChargeResults, Charges } from '../../src/store/charges.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { requestFacts } from '../support/costs/request-facts.ts'
import { runs } from '../support/run/property-runs.ts'

const MAX = BigInt(Number.MAX_SAFE_INTEGER)
const NANO = 1_000_000_000n

// Whole millionths of a unit for a million tokens, up to 1,000,000 units; most are like real ones.
const price = fc.oneof(fc.integer({ min: 0, max: 100_000_000 }), fc.integer({ min: 0, max: 1_000_000_000_000 }))
const prices = fc.record({ input: price, cachedInput: price, cacheWrite: price, cacheWrite1h: price, output: price })
const above = fc.tuple(prices, fc.integer({ min: 1, max: 1_000_000_000 })).map(([long, tokens]) => ({ ...long, tokens }))
const allPrices = fc
  .tuple(prices, fc.option(above, { nil: undefined }), fc.oneof(fc.constant(0), price))
  .map(([each, long, perRequest]) => ({ ...each, above: long, perRequest }))
const count = fc.oneof(fc.nat(10_000), fc.nat(10_000_000), fc.maxSafeNat())

/** The same in whole numbers of any size: trillionths, rounded up to billionths once. */
function modelCost(parts: readonly (readonly [tokens: number, price: number])[]): number {
  const pico = parts.reduce((sum, [tokens, each]) => sum + BigInt(tokens) * BigInt(each), 0n)
  const nano = (pico + 999n) / 1000n
  return Number(nano > MAX ? MAX : nano)
}

test('any tokens at any prices cost what whole numbers of any size say, to the billionth', () => {
  fc.assert(
    fc.property(allPrices, count, count, count, count, count, (each, input, output, read, written, written1h) => {
      const model = new ModelPrice(each)
      const tokens = tokenCounts(input, output, { cachedInput: read, cacheWrite: written, cacheWrite1h: written1h })
      const isPlausible = BigInt(read) + BigInt(written) <= BigInt(input)
      const [cached, kept] = isPlausible ? [read, written] : [0, 0]
      const forAnHour = Math.min(kept, written1h)
      const { above, perRequest } = each
      const table = above !== undefined && input > above.tokens ? above : each
      const own: [number, number] = [perRequest, 1000]
      const expected = modelCost([
        [input - cached - kept, table.input],
        [cached, table.cachedInput],
        [kept - forAnHour, table.cacheWrite],
        [forAnHour, table.cacheWrite1h],
        [output, table.output],
        own,
      ])
      const usage = { tokens, isStreamed: false }
      expect(model.settled(0, usage)).toBe(expected)
      expect(settledBy(model.record, 0, usage)).toBe(expected)
      const dearest = Math.max(table.input, table.cachedInput, table.cacheWrite, table.cacheWrite1h)
      expect(model.reserved(input, output)).toBe(modelCost([[input, dearest], [output, table.output], own]))
    }),
    { numRuns: runs(140) },
  )
})

test('prices and budgets that a bundle writes with six decimals are whole millionths', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 9_000_000_000_000 }), (micro) => {
      const text = `${Math.floor(micro / 1e6)}.${String(micro % 1e6).padStart(6, '0')}`
      expect(microOf(Number(text))).toBe(micro)
    }),
  )
})

test('a cost in decimals is rounded up to the billionth, whatever its digits', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 40n }), fc.integer({ min: 1, max: 32 }), (digits, decimals) => {
      const text = String(digits).padStart(decimals + 1, '0')
      const [whole, fraction] = [text.slice(0, -decimals), text.slice(-decimals)]
      const scale = 10n ** BigInt(decimals)
      const nano = (digits * NANO + scale - 1n) / scale
      expect(readNano(`${whole}.${fraction}`)).toBe(Number(nano > MAX ? MAX : nano))
    }),
  )
})

test('a given number with up to nine decimals is exact', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1_000_000_000_000_000 }), (nano) => {
      expect(nanoOf(nano / 1e9)).toBe(nano)
    }),
  )
})

const BUDGET = 9_000_000_000_000_000
const MONTH = calendarOf('1mo', 'UTC')
const WALL_MS = Date.UTC(2026, 10, 16)

/** One caller's budget in the store that the service runs on, reserved and settled as the engine does. */
class Ledger {
  readonly #store = newEmbeddedStore(64 * 1024)
  readonly #results = new ChargeResults()
  readonly #row = new Charges()
  #counter = this.#open(BUDGET)

  /** A reload: the same counter under another limit. */
  reload(budget: number): void {
    this.#counter = this.#open(budget)
  }

  take(cost: number): boolean {
    return this.#store.takeAll(this.#charges(cost), this.#results, 0, WALL_MS)
  }

  settle(reserved: number, amount: number): void {
    this.#store.settleAll(this.#charges(reserved - amount), { wallMs: WALL_MS, momentMs: WALL_MS, from: 'local' }, 0, WALL_MS)
  }

  get left(): number {
    this.#store.checkAll(this.#charges(0), this.#results, 0, WALL_MS)
    return this.#results.levels[0]!
  }

  #open(tokens: number) {
    const limit: WindowLimit = { kind: WINDOW, tokens, calendar: MONTH }
    return this.#store.open({ identity: ['budget'], limit, sinceMs: 0, isSettled: true })
  }

  #charges(cost: number): Charges {
    this.#row.clear()
    this.#row.add(this.#counter, cost)
    return this.#row
  }
}

test('any reservations, settlements and reloads leave what whole numbers of any size say', () => {
  const amount = fc.oneof(fc.nat(1_000_000), fc.nat(10_000_000_000), fc.integer({ min: 0, max: 2_000_000_000_000_000 }))
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ reserve: amount }) },
    { weight: 4, arbitrary: fc.record({ settle: fc.nat(), to: amount }) },
    { weight: 1, arbitrary: fc.record({ budget: fc.integer({ min: 1_000_000_000_000_000, max: BUDGET }) }) },
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new Ledger()
      let [budget, used] = [BigInt(BUDGET), 0n]
      const open: number[] = []
      for (const each of steps) {
        if ('reserve' in each) {
          const fits = used + BigInt(each.reserve) <= budget
          expect(ledger.take(each.reserve)).toBe(fits || each.reserve === 0)
          if (!fits) continue
          used += BigInt(each.reserve)
          open.push(each.reserve)
        } else if ('settle' in each) {
          if (open.length === 0 || used > MAX / 2n) continue
          const [reserved] = open.splice(each.settle % open.length, 1)
          ledger.settle(reserved!, each.to)
          used += BigInt(each.to) - BigInt(reserved!)
        } else {
          budget = BigInt(each.budget)
          ledger.reload(each.budget)
        }
        expect(BigInt(ledger.left)).toBe(used >= budget ? 0n : budget - used)
      }
    }),
  )
})

test('very many settlements do not drift by a billionth', () => {
  const ledger = new Ledger()
  const cost = new BudgetCost(
    new PriceTable([
      ['*', new ModelPrice({ input: 150_001, cachedInput: 75_007, cacheWrite: 187_503, cacheWrite1h: 187_503, output: 600_013 })],
    ]),
    undefined,
  )
  const price = cost.forRequest(requestFacts())
  let used = 0n
  const settlements = runs(5_000)
  for (let i = 0; i < settlements; i++) {
    const reserved = 1_000_003 + (i % 977)
    const tokens = tokenCounts(i % 4001, (i * 7) % 1009, { cachedInput: i % 13, cacheWrite: i % 7 })
    const amount = price.settled(reserved, { tokens, isStreamed: false })!
    if (!ledger.take(reserved)) throw new Error('the budget covers them all')
    ledger.settle(reserved, amount)
    used += BigInt(amount)
  }
  expect(BigInt(ledger.left)).toBe(BigInt(BUDGET) - used)
})
