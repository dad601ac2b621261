import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Allowed } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import { algorithmOf } from '../../src/limiter/algorithms/algorithms.ts'
import { BUCKET, type Limit, WINDOW } from '../../src/limiter/limit.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { ChargeResults, Charges, type Counter } from '../../src/store/charges.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { MIN_TABLE_BYTES } from '../../src/store/table/table-layout.ts'
import { bundle, llmRule, type PolicyText, policy } from '../support/bundles/bundles.ts'
import { anyBurst, anyRate, anyShare, exactBurst, exactRate } from '../support/random/numbers.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { AsyncStore } from '../support/store/async-store.ts'
import { bucketLimit, checkRows, dayLimit, type Row, settleRows, type Taken, takeRows } from '../support/store/charging.ts'
import { MapStore } from '../support/store/map-store.ts'

/** Room for some seven thousand counters: more than any run here opens. */
const AMPLE_BYTES = 256 * 1024
const COUNTERS = 4
const CALLERS = ['a', 'b']

type Act =
  | { readonly kind: 'take' | 'check' | 'correct'; readonly charges: readonly Charge[] }
  /** Ends one of the reservations that are open; of each of its rows so much of what was reserved was used. */
  | { readonly kind: 'settle'; readonly pick: number; readonly used: readonly number[] }

type Step = Act & {
  readonly gapMs: number
  readonly wallGapMs: number
  /** Gives a counter another rate and size first. */
  readonly change?: { readonly counter: number; readonly rate: number; readonly size: number } | undefined
}

interface Charge {
  readonly counter: number
  readonly caller: number
  /** As a share of the limit's size. */
  readonly share: number
}

const charge = fc.record({ counter: fc.nat(COUNTERS - 1), caller: fc.nat(CALLERS.length - 1), share: anyShare })
const selector = ({ counter, caller }: Charge): string => `${counter} ${caller}`
const charges = fc.uniqueArray(charge, { maxLength: COUNTERS * CALLERS.length, selector })
const small = charges.map((list) => list.map((each) => ({ ...each, share: each.share / 4 })))
const signed = charges.map((list) => list.map((each) => ({ ...each, share: each.share - 0.5 })))
const gapMs = fc.oneof(fc.nat(50), fc.nat(5000), fc.integer({ min: -2000, max: 0 }))
const forwardMs = fc.oneof(fc.nat(1000), fc.nat(100_000_000))
const anyWayMs = fc.oneof(forwardMs, fc.integer({ min: -100_000_000, max: 0 }))

function limitsOf(rate: fc.Arbitrary<number>, burst: fc.Arbitrary<number>): fc.Arbitrary<Limit[]> {
  const limit = fc.oneof(
    fc.tuple(rate, burst).map(([r, b]) => bucketLimit(r, b)),
    fc.integer({ min: 1, max: 2 ** 20 }).map(dayLimit),
  )
  return fc.array(limit, { minLength: COUNTERS, maxLength: COUNTERS })
}

/** Shares of what was reserved, one for each row that there may be; above 1 more was used. */
function settleOf(mostUsed: number): fc.Arbitrary<Act> {
  const share = fc.oneof(
    anyShare.map((part) => part * mostUsed),
    fc.constantFrom(0, 1),
  )
  const used = fc.array(share, { minLength: COUNTERS * CALLERS.length, maxLength: COUNTERS * CALLERS.length })
  return fc.record({ kind: fc.constant('settle' as const), pick: fc.nat(), used })
}

const takeOrCheck: fc.Arbitrary<Act> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('take' as const), charges: small }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('take' as const, 'check' as const), charges }) },
)
const correct: fc.Arbitrary<Act> = fc.record({ kind: fc.constant('correct' as const), charges: signed })

function stepsOf(act: fc.Arbitrary<Act>, wallGapMs: fc.Arbitrary<number>, change?: fc.Arbitrary<Step['change']>): fc.Arbitrary<Step[]> {
  const step = fc
    .tuple(act, fc.record({ gapMs, wallGapMs, change: change ?? fc.constant(undefined) }))
    .map(([what, when]) => ({ ...what, ...when }))
  return fc.array(step, { maxLength: 40 })
}

test('any takes, checks and settlements at any times leave the same levels and waits as a Map', async () => {
  const act = fc.oneof({ weight: 3, arbitrary: takeOrCheck }, { weight: 2, arbitrary: settleOf(1.5) }, { weight: 1, arbitrary: correct })
  await fc.assert(
    fc.asyncProperty(limitsOf(anyRate, anyBurst), stepsOf(act, forwardMs), (limits, steps) =>
      expectSameLevels(limits, steps, (cost) => cost),
    ),
  )
})

test('what is given back finds its day however the wall clock steps, as in a Map', async () => {
  const act = fc.oneof(takeOrCheck, settleOf(1))
  await fc.assert(
    fc.asyncProperty(limitsOf(anyRate, anyBurst), stepsOf(act, anyWayMs), (limits, steps) =>
      expectSameLevels(limits, steps, (cost) => cost),
    ),
  )
})

test('settlements under limits that change on the way leave the same levels and waits as a Map', async () => {
  const act = fc.oneof(takeOrCheck, settleOf(1.5))
  const change = fc.option(fc.record({ counter: fc.nat(COUNTERS - 1), rate: exactRate, size: exactBurst }), { nil: undefined })
  await fc.assert(
    fc.asyncProperty(limitsOf(exactRate, exactBurst), stepsOf(act, forwardMs, change), (limits, steps) =>
      expectSameLevels(limits, steps, (cost) => Math.round(cost * 8) / 8),
    ),
  )
})

test('a bucket with settlements equals a meter that takes and charges fill, and time and what is given back drain', async () => {
  const eighths = (max: number) => fc.integer({ min: 0, max }).map((units) => units / 8)
  const step = fc.record({
    gapMs: fc.nat(5000),
    cost: eighths(2 ** 18),
    ends: fc.array(fc.record({ pick: fc.nat(), used: eighths(2 ** 19) })),
  })
  await fc.assert(
    fc.asyncProperty(exactRate, exactBurst, fc.array(step, { maxLength: 30 }), async (rate, burst, steps) => {
      const { take, settle, level } = newBucket(rate, burst)
      const open: number[] = []
      let nowMs = 0
      let drawn = 0
      for (const { gapMs, cost, ends } of steps) {
        nowMs += gapMs
        drawn = Math.max(0, drawn - gapMs * rate)
        const fits = cost === 0 || drawn + cost <= burst
        expect(await take(cost, nowMs)).toBe(fits)
        if (fits) {
          drawn += cost
          open.push(cost)
        }
        for (const { pick, used } of ends) {
          if (open.length === 0) break
          const [reserved] = open.splice(pick % open.length, 1)
          await settle(reserved! - used, nowMs)
          if (reserved !== used) drawn = Math.max(0, drawn - (reserved! - used))
        }
        expect(await level(nowMs)).toBe(burst - drawn)
      }
    }),
  )
})

test('no settlement lifts a level above the burst', async () => {
  const step = fc.record({ gap: anyShare, cost: anyShare, back: fc.double({ min: -1, max: 3, noNaN: true }) })
  await fc.assert(
    fc.asyncProperty(anyRate, anyBurst, fc.array(step, { maxLength: 30 }), async (rate, burst, steps) => {
      const { take, settle, level } = newBucket(rate, burst)
      let nowMs = 0
      for (const { gap, cost, back } of steps) {
        nowMs += (gap * burst) / rate
        await take(cost * burst, nowMs)
        await settle(back * burst, nowMs)
        expect(await level(nowMs)).toBeLessThanOrEqual(burst)
      }
    }),
  )
})

test('in any window no more is used than burst + rate × time + what was reserved before it and given back inside it', async () => {
  interface Event {
    readonly atMs: number
    readonly request: number
    /** Above 0 for a take and a charge, below for what is given back. */
    readonly tokens: number
    readonly isTake: boolean
  }
  const step = fc.record({ gap: anyShare, cost: anyShare, ends: fc.array(fc.record({ pick: fc.nat(), used: anyShare }), { maxLength: 3 }) })
  await fc.assert(
    fc.asyncProperty(anyRate, anyBurst, fc.array(step, { minLength: 1, maxLength: 30 }), async (rate, burst, steps) => {
      const { take, settle } = newBucket(rate, burst)
      const events: Event[] = []
      const open: { request: number; cost: number }[] = []
      let nowMs = 0
      for (const [request, { gap, cost: share, ends }] of steps.entries()) {
        nowMs += (gap * burst) / rate / 4
        const cost = share * burst
        if (cost > 0 && (await take(cost, nowMs))) {
          events.push({ atMs: nowMs, request, tokens: cost, isTake: true })
          open.push({ request, cost })
        }
        for (const { pick, used } of ends) {
          if (open.length === 0) break
          const [ended] = open.splice(pick % open.length, 1)
          const tokens = ended!.cost * (used * 1.5 - 1)
          await settle(-tokens, nowMs)
          events.push({ atMs: nowMs, request: ended!.request, tokens, isTake: false })
        }
      }
      for (const [first, start] of events.entries()) {
        const inside = new Set<number>()
        let usedTokens = 0
        let backTokens = 0
        for (const { atMs, request, tokens, isTake } of events.slice(first)) {
          if (isTake) inside.add(request)
          if (inside.has(request)) usedTokens += tokens
          else backTokens += Math.max(0, -tokens)
          // What is charged beyond a reservation is asked of nobody: the bound is one for the moments at which takes pass.
          const bound = burst + rate * (atMs - start.atMs) + backTokens
          if (isTake) expect(usedTokens).toBeLessThanOrEqual(bound + (burst + bound) * 1e-12)
        }
      }
    }),
  )
})

test('reservations under way at the same time, ended in any order, leave what was used and nothing else taken', async () => {
  const end = fc.oneof(fc.constant('never' as const), fc.nat(400))
  const request = fc.record({ promptTokens: fc.nat(30), requestedTokens: fc.integer({ min: 1, max: 300 }), end })
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 25 }), fc.infiniteStream(fc.nat()), async (requests, choices) => {
      const store = new AsyncStore()
      const engine = new Engine({ store, clock: new ManualClock() })
      const config = { tokens_per_minute: 2000, tokens_per_day: 3000, max_completion_tokens: 200 }
      const rules = [llmRule('budget', [], config)]
      engine.activate(planOf([policy('p', { rules }), policy('s', { mode: 'shadow', rules })]))
      const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat' })
      const used = [0, 0]
      let isAllAllowed = true
      const ends = requests.map(async ({ promptTokens, requestedTokens, end }) => {
        const decision = await engine.decide(view, {
          body: { promptTokens, requestedTokens, choices: 1, isStream: false, model: undefined },
        })
        if (decision.action === 'reject') isAllAllowed = false
        const { reservation } = decision as Allowed
        for (const hold of reservation?.charges ?? []) {
          const place = hold.rule.policy.isShadow ? 1 : 0
          expect(hold.amount).toBe(promptTokens + Math.min(requestedTokens, 200))
          used[place]! += end === 'never' ? hold.amount : end
          if (end !== 'never') await engine.settle(hold, end)
        }
      })
      await store.answerAll((count) => choices.next().value % count)
      await Promise.all(ends)
      const levels = await levelsOf(store, engine)
      expect(levels.slice(0, 2)).toEqual([2000 - used[0]!, Math.max(0, 3000 - used[0]!)])
      expect(levels.slice(2)).toEqual([2000 - used[1]!, Math.max(0, 3000 - used[1]!)])
      const asked = requests.reduce((sum, { promptTokens, requestedTokens }) => sum + promptTokens + requestedTokens, 0)
      if (asked <= 2000 && requests.every(({ end: used }) => used === 'never' || used === 0)) expect(isAllAllowed).toBe(true)
    }),
  )
})

/** A bucket of the embedded store, full at 0 ms. */
function newBucket(tokensPerMs: number, burst: number) {
  const store = newEmbeddedStore(MIN_TABLE_BYTES)
  const counter = store.open({ identity: ['bucket'], limit: bucketLimit(tokensPerMs, burst), sinceMs: 0 })
  const take = (cost: number, nowMs: number): Promise<Taken> => takeRows(store, [{ counter, cost }], nowMs)
  return {
    take: async (cost: number, nowMs: number): Promise<boolean> => (await take(cost, nowMs)).taken === true,
    settle: (cost: number, nowMs: number): Promise<void> => settleRows(store, [{ counter, cost }], nowMs),
    level: async (nowMs: number): Promise<number> => (await take(0, nowMs)).levels[0]!,
  }
}

async function expectSameLevels(limits: readonly Limit[], steps: readonly Step[], round: (cost: number) => number): Promise<void> {
  const [store, model] = [newEmbeddedStore(AMPLE_BYTES), new MapStore()]
  const current = [...limits]
  const openAt = (i: number, sinceMs: number): [Counter, Counter] => {
    const spec = { identity: ['counter', String(i)], limit: current[i]!, sinceMs }
    return [store.open(spec), model.open(spec)]
  }
  const opened = current.map((_, i) => openAt(i, 0))
  const rowsOf = (list: readonly Charge[], cost: (charge: Charge, i: number) => number): [Row[], Row[]] => {
    const rows = (which: 0 | 1): Row[] =>
      list.map((each, i) => ({ counter: opened[each.counter]![which], values: [CALLERS[each.caller]!], cost: cost(each, i) }))
    return [rows(0), rows(1)]
  }
  const costOf = ({ counter, share }: Charge): number => {
    const limit = current[counter]!
    return limit.kind === BUCKET ? round(limit.burst * share) : Math.round(algorithmOf(limit).size(limit) * share)
  }
  const everything = current.flatMap((_, counter) => CALLERS.map((__, caller) => ({ counter, caller, share: 0 })))
  const open: { readonly charges: readonly Charge[]; readonly costs: readonly number[]; readonly wallMs: number }[] = []
  const look = async (): Promise<void> => {
    const [looks, modelled] = rowsOf(everything, () => 0)
    expectSame(await takeRows(store, looks, nowMs, wallMs), await takeRows(model, modelled, nowMs, wallMs))
  }
  const touched = new Set<string>()
  let nowMs = 0
  let wallMs = Date.UTC(2026, 0, 15)
  for (const step of steps) {
    await look()
    nowMs += step.gapMs
    wallMs += step.wallGapMs
    if (step.change) {
      const { counter, rate, size } = step.change
      current[counter] = current[counter]!.kind === WINDOW ? dayLimit(Math.ceil(size)) : bucketLimit(rate, size)
      opened[counter] = openAt(counter, nowMs)
    }
    if (step.kind === 'settle') {
      if (open.length === 0) continue
      const [ended] = open.splice(step.pick % open.length, 1)
      const { charges: list, costs, wallMs: takenWallMs } = ended!
      const back = ({ counter }: Charge, i: number): number => {
        const used = costs[i]! * step.used[i]!
        return costs[i]! - (limits[counter]!.kind === BUCKET ? round(used) : Math.round(used))
      }
      const [rows, modelled] = rowsOf(list, back)
      await settleRows(store, rows, nowMs, wallMs, takenWallMs)
      await settleRows(model, modelled, nowMs, wallMs, takenWallMs)
    } else if (step.kind === 'correct') {
      // A full bucket may be forgotten or remembered, so nothing is given back to one that nothing was ever taken from.
      const [rows, modelled] = rowsOf(step.charges, (each) => (touched.has(selector(each)) ? costOf(each) : Math.min(0, costOf(each))))
      for (const each of step.charges) if (costOf(each) < 0) touched.add(selector(each))
      await settleRows(store, rows, nowMs, wallMs)
      await settleRows(model, modelled, nowMs, wallMs)
    } else {
      const ask = step.kind === 'take' ? takeRows : checkRows
      const costs = step.charges.map(costOf)
      const [rows, modelled] = rowsOf(step.charges, (_, i) => costs[i]!)
      const answer = await ask(store, rows, nowMs, wallMs)
      expectSame(answer, await ask(model, modelled, nowMs, wallMs))
      if (step.kind === 'check' || !answer.taken) continue
      open.push({ charges: step.charges, costs, wallMs })
      for (const [i, each] of step.charges.entries()) if (costs[i]! > 0) touched.add(selector(each))
    }
  }
  await look()
  expect(store.stats().forcedEvictions).toBe(0)
}

function expectSame(answer: Taken, expected: Taken): void {
  expect(answer.taken).toBe(expected.taken)
  expect(answer.levels).toEqual(expected.levels)
  for (const [row, waitMs] of answer.waitsMs.entries()) {
    const expectedMs = expected.waitsMs[row]!
    // The store may lengthen a wait by the last bits of it, so that it is never too short.
    if (waitMs !== expectedMs) expect(waitMs / expectedMs).toBeCloseTo(1, 12)
  }
}

function planOf(policies: readonly PolicyText[]) {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

async function levelsOf(store: AsyncStore, engine: Engine): Promise<number[]> {
  const [looks, results] = [new Charges(), new ChargeResults()]
  for (const { identity, limit } of engine.plan!.counters) looks.add(store.open({ identity, limit, sinceMs: 0 }), 0)
  const clock = new ManualClock()
  const looked = store.takeAll(looks, results, clock.nowMs(), clock.wallMs())
  await store.answerAll()
  await looked
  return [...results.levels.subarray(0, looks.length)]
}
