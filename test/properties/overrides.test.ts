import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Allowed, Decision } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { CounterStatus, Inspection } from '../../src/engine/explain/inspection.ts'
import type { Reservation } from '../../src/engine/reservation.ts'
import type { OverrideChange, TimedOverride } from '../../src/overrides/override.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { EmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../src/store/table/shared-table.ts'
import { newTableBuffer } from '../../src/store/table/table-layout.ts'
import { bucketRule, concurrencyRule, llmRule, policy, windowRule } from '../support/bundles/bundles.ts'
import { callerDigest, override, planOf, ruleOf, setOverrides } from '../support/overrides/overridden-engine.ts'
import { runs } from '../support/run/property-runs.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { MapStore } from '../support/store/map-store.ts'

const KEY = 'header:x-k'
const CALLERS = ['a', 'b'] as const
/** A token in 1024 ms: all levels are exact. */
const RATE = 1000 / 1024
const SIZE = 16

const thread = fc.constantFrom(0, 1)
const caller = fc.constantFrom(...CALLERS)
const changes: fc.Arbitrary<OverrideChange> = fc.oneof(
  fc.record({ kind: fc.constant('multiply' as const), factor: fc.constantFrom(0.25, 0.5, 2, 4, 8) }),
  fc.record({ kind: fc.constant('set' as const), fields: fc.record({ burst: fc.integer({ min: 1, max: 200 }) }) }),
  fc.constantFrom<OverrideChange>({ kind: 'unlimited' }, { kind: 'block' }),
)
const cost = fc.integer({ min: 0, max: 20 })
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), thread, caller, cost, isUnaware: fc.constant(false) }) },
  // By a thread to which no override was announced.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('take' as const), thread, caller, cost, isUnaware: fc.constant(true) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 5000 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('set' as const),
      of: fc.constantFrom(undefined, ...CALLERS),
      change: changes,
      inMs: fc.integer({ min: 1, max: 2000 }),
      forMs: fc.integer({ min: 1, max: 20_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('end' as const), of: fc.constantFrom(undefined, ...CALLERS) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'reload' as const }) },
)

test('two threads under random overrides decide as the plainest model does, and no record gets a difference twice', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const { engines, clock } = twoThreads(() => planOf(policy('p', { rules: [bucketRule('r', [KEY], SIZE, RATE)] })))
      const overrides = new SetOverrides(clock, engines)
      const model = new Model()
      for (const each of steps) {
        if (each.kind === 'wait') clock.advance(each.ms)
        else if (each.kind === 'end') overrides.end(each.of)
        else if (each.kind === 'reload') for (const engine of engines) engine.activate(engine.plan!)
        else if (each.kind === 'set') overrides.set(each.of, each.change, each.inMs, each.forMs)
        else {
          const nowMs = clock.nowMs()
          const inForce = each.isUnaware ? undefined : overrides.inForce(each.caller, nowMs)
          if (each.isUnaware) setOverrides(engines[each.thread], [])
          const decision = engines[each.thread].decide(requestOf(each.caller), { given: each.cost }) as Decision
          expect(told(decision)).toEqual(model.take(each.caller, each.cost, nowMs, inForce))
          if (each.isUnaware) overrides.announce()
        }
      }
      expect(Math.max(0, ...model.differences.values())).toBeLessThanOrEqual(1)
    }),
    { numRuns: runs(8) },
  )
})

test('takes and settlements of every kind of rule under overrides come to the same in a table and in a Map', () => {
  const rules = [
    bucketRule('r', [KEY], SIZE, RATE),
    windowRule('quota', [KEY], { limit: 64, period: '1h' }),
    llmRule('llm', [KEY], { tokens_per_minute: 60_000, burst_tokens: 4096, tokens_per_day: 65_536, max_completion_tokens: 512 }),
    concurrencyRule('held', [KEY], 8),
  ]
  const settled = fc.record({ kind: fc.constant('settle' as const), thread, amount: fc.integer({ min: 0, max: 1024 }) })
  const anyRule = fc.constantFrom('r', 'quota', 'llm', 'held')
  const factor = fc.constantFrom(0.25, 0.5, 2, 4)
  const set = fc.record({ kind: fc.constant('set' as const), rule: anyRule, of: fc.constantFrom(undefined, ...CALLERS), factor })
  const steps = fc.array(
    fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), thread, caller }) },
      { weight: 4, arbitrary: settled },
      { weight: 2, arbitrary: set },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 2000 }) }) },
    ),
    { maxLength: 60, size: 'max' },
  )
  const body = { promptTokens: 0, requestedTokens: 512, choices: 1, isStream: false, model: undefined }
  fc.assert(
    fc.property(steps, (list) => {
      const plan = () => planOf(policy('p', { rules }))
      const { engines, clock } = twoThreads(plan)
      const model = engineOn(new MapStore(), clock, plan)
      const all = [...engines, model]
      const overrides = new Map<string, TimedOverride>()
      const reservations: [Reservation, Reservation][] = []
      for (const each of list) {
        if (each.kind === 'wait') clock.advance(each.ms)
        else if (each.kind === 'set') {
          const subject = { policy: 'p', rule: each.rule, values: each.of && { [KEY]: each.of } }
          overrides.set(`${each.rule} ${each.of}`, override(subject, { kind: 'multiply', factor: each.factor }, clock, clock.nowMs() + 1))
          for (const engine of all) setOverrides(engine, [...overrides.values()])
        } else if (each.kind === 'take') {
          const [own, expected] = [engines[each.thread], model].map((engine) => engine.decide(requestOf(each.caller), { body }) as Decision)
          expect(told(own!)).toEqual(told(expected!))
          if (own!.action === 'allow') reservations.push([own!.reservation!, (expected as Allowed).reservation!])
        } else {
          const [own, expected] = reservations.shift() ?? []
          for (const charge of [...(own?.charges ?? []), ...(own?.holds ?? [])])
            engines[each.thread].settle(charge, settledTo(charge, each.amount))
          for (const charge of [...(expected?.charges ?? []), ...(expected?.holds ?? [])])
            model.settle(charge, settledTo(charge, each.amount))
        }
        for (const rule of rules as { name: string }[]) {
          const name = { policy: 'p', rule: rule.name, values: { [KEY]: 'a' } }
          const [one, other, expected] = all.map((engine) => countersOf(engine.inspect(name) as Inspection))
          expect([one, other]).toEqual([expected, expected])
          for (const { level, limit } of one!) expect(level).toBeLessThanOrEqual(limit)
        }
      }
    }),
    { numRuns: runs(2) },
  )
})

function countersOf(found: Inspection): readonly CounterStatus[] {
  if (!found.ok) throw new Error(found.error)
  return found.counters
}

/** A hold is released, whatever was used. */
function settledTo({ rule }: Reservation['charges'][number], amount: number): number {
  return rule.name === 'held' ? 0 : amount
}

function requestOf(name: string): PlainRequestView {
  return new PlainRequestView({ method: 'GET', uri: '/', headers: { 'x-k': name } })
}

function told(decision: Decision): string {
  if (decision.action === 'refuse') return decision.reason
  const { action, reason, limit } = decision
  return `${action} ${reason} ${limit?.limitText} ${limit?.remaining}`
}

function engineOn(store: CounterStore, clock: ManualClock, plan: () => ReturnType<typeof planOf>): Engine {
  const engine = new Engine({ store, clock, callerDigest })
  engine.activate(plan())
  return engine
}

function twoThreads(plan: () => ReturnType<typeof planOf>): { engines: readonly [Engine, Engine]; clock: ManualClock } {
  const table = newTableBuffer(64 * 1024)
  const clock = new ManualClock()
  const on = (owner: number) => engineOn(new EmbeddedStore(new SharedTable(table, owner), [1, 2]), clock, plan)
  return { engines: [on(1), on(2)], clock }
}

/** One override for each caller, and one for all: a new one takes the place of the one before it. */
class SetOverrides {
  readonly #clock: ManualClock
  readonly #engines: readonly Engine[]
  #all: { readonly of: string | undefined; readonly timed: TimedOverride }[] = []

  constructor(clock: ManualClock, engines: readonly Engine[]) {
    this.#clock = clock
    this.#engines = engines
  }

  set(of: string | undefined, change: OverrideChange, inMs: number, forMs: number): void {
    const fromMs = this.#clock.nowMs() + inMs
    this.#cut(of, fromMs)
    const timed = override(ruleOf(of === undefined ? undefined : { [KEY]: of }), change, this.#clock, fromMs)
    this.#all.push({ of, timed: { ...timed, toMs: fromMs + forMs } })
    this.announce()
  }

  end(of: string | undefined): void {
    this.#cut(of, this.#clock.nowMs())
    this.announce()
  }

  inForce(name: string, nowMs: number): TimedOverride | undefined {
    const open = this.#all.filter(({ timed }) => timed.fromMs <= nowMs && nowMs < timed.toMs)
    return (open.findLast(({ of }) => of === name) ?? open.findLast(({ of }) => of === undefined))?.timed
  }

  #cut(of: string | undefined, toMs: number): void {
    this.#all = this.#all.map((each) => (each.of === of ? { of, timed: { ...each.timed, toMs: Math.min(each.timed.toMs, toMs) } } : each))
  }

  announce(): void {
    for (const engine of this.#engines)
      setOverrides(
        engine,
        this.#all.map(({ timed }) => timed),
      )
  }
}

interface Level {
  readonly level: number
  readonly atMs: number
  readonly size: number
  readonly perMs: number
}

/** One bucket a caller, as decision 36 says it. */
class Model {
  readonly #levels = new Map<string, Level>()
  /** How often each override was added to each caller's level. */
  readonly differences = new Map<string, number>()

  take(name: string, cost: number, nowMs: number, timed: TimedOverride | undefined): string {
    const change = timed?.override.change
    if (change?.kind === 'unlimited') return 'allow all_rules_passed undefined undefined'
    if (change?.kind === 'block') return 'reject blocked undefined undefined'
    const [size, perMs] = limitUnder(change)
    const known = this.#levels.get(name)
    const raise = known && timed ? raiseOf(known, timed, size, perMs) : 0
    const met = known && timed ? meet(known, timed, raise, size, perMs) : known
    const now = met === undefined ? { level: size, atMs: nowMs } : refilled(met, size, perMs, nowMs)
    const fits = cost === 0 || now.level >= cost
    // Only what is written counts: a rejected request leaves the record as it was.
    if (fits && cost > 0) {
      this.#levels.set(name, { level: now.level - cost, atMs: now.atMs, size, perMs })
      const key = `${timed?.override.id} ${name}`
      if (raise > 0) this.differences.set(key, (this.differences.get(key) ?? 0) + 1)
    }
    const action = fits ? 'allow all_rules_passed' : 'reject token_bucket_exceeded'
    return `${action} ${Math.floor(size)} ${fits ? Math.max(0, Math.floor(now.level - cost)) : 0}`
  }
}

/** What an override adds to a level from before it. */
function raiseOf(known: Level, { fromMs }: TimedOverride, size: number, perMs: number): number {
  const isMet = known.atMs >= fromMs || (known.size === size && known.perMs === perMs)
  return isMet ? 0 : Math.max(0, size - Math.max(SIZE, known.size))
}

function meet(known: Level, { fromMs }: TimedOverride, raise: number, size: number, perMs: number): Level {
  if (known.atMs >= fromMs || (known.size === size && known.perMs === perMs)) return known
  const before = refilled(known, known.size, known.perMs, fromMs)
  return { level: before.level + raise, atMs: fromMs, size, perMs }
}

function limitUnder(change: OverrideChange | undefined): [size: number, perMs: number] {
  if (change?.kind === 'multiply') return [Math.max(1, SIZE * change.factor), (RATE / 1000) * change.factor]
  if (change?.kind === 'set') return [change.fields.burst as number, RATE / 1000]
  return [SIZE, RATE / 1000]
}

function refilled({ level, atMs }: Level, size: number, perMs: number, nowMs: number): { level: number; atMs: number } {
  return { level: Math.min(size, level + Math.max(0, nowMs - atMs) * perMs), atMs: Math.max(atMs, nowMs) }
}
