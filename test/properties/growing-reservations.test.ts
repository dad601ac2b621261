import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Allowed } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import { type ReservedCharge, reservedAmount } from '../../src/engine/reservation.ts'
import { calendarOf } from '../../src/limiter/calendar.ts'
import { WINDOW } from '../../src/limiter/limit.ts'
import type { Plan } from '../../src/policy/plan.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import { ChargeResults, Charges } from '../../src/store/charges.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { LinkError } from '../../src/store/redis/link/call.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { bucketRule, budgetRule, llmRule, policy } from '../support/bundles/bundles.ts'
import { planOf } from '../support/overrides/overridden-engine.ts'
import { ClockedInstance } from '../support/redis/clocked-instance.ts'
import { ClockedLink } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { sized } from '../support/run/property-runs.ts'
import { MapStore } from '../support/store/map-store.ts'

const KEY = 'header:x-key'
const CALLERS = ['a', 'b']
const START_MS = Date.UTC(2026, 0, 15, 20)
const BURST = 1_000_000_000
/** What the prices of `planOf` make of a token, in billionths. */
const NANO = 1000

/** The two rules whose reservations grow, and how their windows lie. */
const RULES = {
  tokens: { calendar: calendarOf('1d', 'UTC'), unit: 1 },
  money: { calendar: calendarOf('6h', 'UTC'), unit: NANO },
}
type RuleName = keyof typeof RULES
const NAMES: readonly RuleName[] = ['tokens', 'money']

/** Plans that follow each other: what each rule grants in a window, in tokens; in one of them there is no rule for tokens. */
const PLANS: readonly Partial<Record<RuleName, number>>[] = [
  { tokens: 9000, money: 7000 },
  { tokens: 5000, money: 11_000 },
  { money: 7000 },
]

function newPlan({ tokens, money }: (typeof PLANS)[number]): Plan {
  const requests = bucketRule('requests', [KEY], 1_000_000, 1000)
  const minute = { tokens_per_minute: 60_000, burst_tokens: BURST }
  const budget = budgetRule('money', [KEY], { budget: money! / 1_000_000, prices: 'table', period: '6h' })
  const rules = tokens === undefined ? [] : [llmRule('tokens', [KEY], { ...minute, tokens_per_day: tokens })]
  return planOf(policy('p', { rules: [requests, ...rules, budget] }))
}

/** Redis is reachable; nothing reaches it; or no answer comes back from it, although it does all. */
type Reach = 'up' | 'down' | 'lost'

/** A store, by a clock that the test holds. */
interface Tested {
  readonly store: CounterStore
  nowMs: number
  /** Tells the tokens used in a window, by this instance's own count. */
  ownUsed(rule: RuleName, caller: string, wallMs: number): number
  ownMinute(caller: string): number
  /** The same by the count of the fleet. */
  sharedUsed?(rule: RuleName, caller: string, wallMs: number): Promise<number>
  reach?(reach: Reach): Promise<void>
}

interface Part {
  amount: number
  readonly window: number
  readonly isShared: boolean
  /** When it was taken, in steps. */
  readonly at: number
}

interface Stream {
  readonly caller: string
  readonly charges: { readonly charge: ReservedCharge; readonly rule: RuleName; parts: Part[] }[]
}

/** What a counter should have, by window: used by the instance's own count, and by that of the fleet, if it has one. */
class Ledger {
  readonly own = new Map<number, number>()
  readonly shared = new Map<number, number>()
  /** When it was last reset, in steps. */
  readonly resetsAt = new Map<number, number>()
  minute = { level: BURST, nowMs: 0, resetAt: -1 }

  ownUsed(window: number): number {
    return this.own.get(window) ?? 0
  }

  refill(nowMs: number): void {
    const { level, nowMs: before, resetAt } = this.minute
    this.minute = { level: Math.min(BURST, level + nowMs - before), nowMs, resetAt }
  }
}

/** Decides by the text of the promise alone: a list of parts, windows as numbers. */
class Model {
  plan = PLANS[0]!
  reach: Reach = 'up'
  step = 0
  readonly #hasFleet: boolean
  readonly #ledgers = new Map<string, Ledger>()
  /** Settlements that are sent when Redis is reachable again. */
  readonly #unsent: (() => void)[] = []

  constructor(hasFleet: boolean) {
    this.#hasFleet = hasFleet
  }

  of(rule: RuleName, caller: string): Ledger {
    const key = `${rule} ${caller}`
    const ledger = this.#ledgers.get(key) ?? new Ledger()
    this.#ledgers.set(key, ledger)
    return ledger
  }

  fits(rule: RuleName, caller: string, amount: number, wallMs: number): boolean {
    const isOnline = this.#hasFleet && this.reach === 'up'
    return this.fitsOwn(rule, caller, amount, wallMs) && (!isOnline || this.#fitsShared(rule, caller, amount, wallMs))
  }

  fitsOwn(rule: RuleName, caller: string, amount: number, wallMs: number): boolean {
    return this.of(rule, caller).ownUsed(windowOf(rule, wallMs)) + amount <= this.#limitOf(rule)
  }

  /** Takes, and returns the part. `takesShared`: Redis takes it, whether or not anybody hears of that. */
  take(rule: RuleName, caller: string, amount: number, wallMs: number, takesShared = this.fitsBoth(rule, caller, amount, wallMs)): Part {
    const ledger = this.of(rule, caller)
    const window = windowOf(rule, wallMs)
    if (takesShared) this.#takeShared(rule, caller, amount, wallMs)
    const isShared = takesShared && this.reach === 'up'
    ledger.own.set(window, ledger.ownUsed(window) + amount)
    if (rule === 'tokens') ledger.minute.level -= amount
    return { amount, window, isShared, at: this.step }
  }

  /** Whether a take reaches Redis and fits there, even if nobody hears of it. */
  fitsBoth(rule: RuleName, caller: string, amount: number, wallMs: number): boolean {
    const isReached = this.#hasFleet && this.reach !== 'down'
    return isReached && this.fitsOwn(rule, caller, amount, wallMs) && this.#fitsShared(rule, caller, amount, wallMs)
  }

  #takeShared(rule: RuleName, caller: string, amount: number, wallMs: number): void {
    const ledger = this.of(rule, caller)
    const window = windowOf(rule, wallMs)
    // A record that Redis does not have begins with what the instance has counted.
    ledger.shared.set(window, (ledger.shared.get(window) ?? ledger.ownUsed(window)) + amount)
  }

  /** What Redis makes of a take to which the answer comes too late: it gives it back, unless nobody hears of it. Returns whether it fits. */
  takeInVain(rule: RuleName, caller: string, amount: number, wallMs: number): boolean {
    if (!this.fitsBoth(rule, caller, amount, wallMs)) return false
    this.#takeShared(rule, caller, amount, wallMs)
    const { shared } = this.of(rule, caller)
    const window = windowOf(rule, wallMs)
    if (this.reach === 'up') shared.set(window, shared.get(window)! - amount)
    return true
  }

  #fitsShared(rule: RuleName, caller: string, amount: number, wallMs: number): boolean {
    return (this.of(rule, caller).shared.get(windowOf(rule, wallMs)) ?? 0) + amount <= this.#limitOf(rule)
  }

  #limitOf(rule: RuleName): number {
    return this.plan[rule]! * RULES[rule].unit
  }

  /** Gives back to where it was taken, or charges it there below zero. */
  correct(rule: RuleName, caller: string, { window, isShared, at }: Part, back: number): void {
    const ledger = this.of(rule, caller)
    if (rule === 'tokens' && at > ledger.minute.resetAt) ledger.minute.level = Math.min(BURST, ledger.minute.level + back)
    if (at <= (ledger.resetsAt.get(window) ?? -1)) return
    ledger.own.set(window, Math.max(0, ledger.ownUsed(window) - back))
    if (!isShared) return
    const send = (): void => void ledger.shared.set(window, Math.max(0, ledger.shared.get(window)! - back))
    if (this.reach === 'down') this.#unsent.push(send)
    else send()
  }

  settle(rule: RuleName, caller: string, parts: readonly Part[], used: number): void {
    let rest = used
    for (const [i, part] of parts.entries()) {
      const own = i === parts.length - 1 ? rest : Math.min(rest, part.amount)
      rest -= own
      if (own !== part.amount) this.correct(rule, caller, part, part.amount - own)
    }
  }

  reset(rule: RuleName, caller: string, wallMs: number): void {
    const ledger = this.of(rule, caller)
    const window = windowOf(rule, wallMs)
    ledger.own.set(window, 0)
    ledger.shared.set(window, 0)
    ledger.resetsAt.set(window, this.step)
    if (rule === 'tokens') ledger.minute = { ...ledger.minute, level: BURST, resetAt: this.step }
  }

  reachBy(reach: Reach): void {
    this.reach = reach
    if (reach === 'up') for (const send of this.#unsent.splice(0)) send()
  }
}

function windowOf(rule: RuleName, wallMs: number): number {
  return RULES[rule].calendar.windowAt(wallMs).number
}

/** At most 16: then the two oldest of one window, and of one store, become one. */
function addPart(parts: Part[], part: Part): void {
  parts.push(part)
  if (parts.length <= 16) return
  const isSame = (a: Part, b: Part): boolean => a.window === b.window && a.isShared === b.isShared
  for (const [i, one] of parts.entries()) {
    const j = parts.findIndex((other, at) => at > i && at < 16 && isSame(one, other))
    if (j < 0) continue
    one.amount += parts[j]!.amount
    parts.splice(j, 1)
    return
  }
  throw new Error('no schedule has so many windows')
}

const anyTokens = fc.oneof(fc.integer({ min: 1, max: 150 }), fc.integer({ min: 1, max: 1500 }))
const anyShare = fc.constantFrom(0, 0.1, 0.4, 0.7, 0.95, 1, 1.3)
const which = fc.nat(5)
type Act =
  | { readonly what: 'open'; readonly caller: string; readonly tokens: number }
  | { readonly what: 'grow'; readonly which: number; readonly tokens: number; readonly times: number }
  /** So much of what is reserved was used; before that, `meanwhile` is asked for. */
  | { readonly what: 'settle'; readonly which: number; readonly share: number; readonly meanwhile: number | null }
  | { readonly what: 'reset'; readonly caller: string; readonly rule: RuleName }
  | { readonly what: 'load'; readonly plan: number }
  | { readonly what: 'reach'; readonly reach: Reach }

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ what: fc.constant('open' as const), caller: fc.constantFrom(...CALLERS), tokens: anyTokens }) },
  { weight: 8, arbitrary: fc.record({ what: fc.constant('grow' as const), which, tokens: anyTokens, times: fc.constantFrom(1, 1, 2, 9) }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constant('settle' as const), which, share: anyShare, meanwhile: fc.option(anyTokens) }) },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('reset' as const), caller: fc.constantFrom(...CALLERS), rule: fc.constantFrom(...NAMES) }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('load' as const), plan: fc.nat(PLANS.length - 1) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('reach' as const), reach: fc.constantFrom<Reach>('up', 'down', 'lost') }) },
)
const anyPauseMs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 60_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 3_600_000, max: 5 * 3_600_000 }) },
)
type Schedule = [act: Act, pauseMs: number][]
const schedule: fc.Arbitrary<Schedule> = fc.array(fc.tuple(anyAct, anyPauseMs), { minLength: 5, maxLength: 70 })

const OPEN = { what: 'open', caller: 'a', tokens: 10 } as const
const UNUSED = { what: 'settle', which: 0, share: 0, meanwhile: null } as const
const growth = (times: number): Act => ({ what: 'grow', which: 0, tokens: 10, times })
const reach = (next: Reach): Act => ({ what: 'reach', reach: next })

/** More parts than are kept: from two stores, and from before and after a reset, a midnight and a reload. */
const EXAMPLES: Schedule[] = [
  everySecond(OPEN, { ...OPEN, tokens: 900 }, reach('down'), growth(18), reach('up'), growth(2), UNUSED),
  everySecond(OPEN, growth(18), reach('lost'), growth(2), { ...UNUSED, share: 0.5, meanwhile: 10 }, reach('up')),
  everySecond(OPEN, { what: 'reset', caller: 'a', rule: 'tokens' }, growth(18), UNUSED),
  everySecond(OPEN, growth(2), { what: 'load', plan: 1 }, growth(18), { ...UNUSED, share: 1.3, meanwhile: 10 }),
  [...everySecond(OPEN, growth(2)), [growth(18), 4 * 3_600_000], [UNUSED, 1000]],
]

function everySecond(...acts: readonly Act[]): Schedule {
  return acts.map((act) => [act, 1000])
}

/** Runs a schedule on a store and in the model, and compares all counters after each step. */
class Trial {
  readonly #tested: Tested
  readonly #model: Model
  readonly #engine: Engine
  readonly #streams: Stream[] = []
  readonly #isRemote: boolean

  constructor(tested: Tested) {
    this.#tested = tested
    this.#isRemote = tested.reach !== undefined
    this.#model = new Model(this.#isRemote)
    const clock = { nowMs: () => tested.nowMs, wallMs: () => this.#wallMs }
    this.#engine = new Engine({ store: tested.store, clock })
    this.#engine.activate(newPlan(this.#model.plan))
  }

  get #wallMs(): number {
    return START_MS + this.#tested.nowMs
  }

  async run(steps: Schedule): Promise<void> {
    for (const [act, pauseMs] of steps) {
      this.#tested.nowMs += pauseMs
      this.#model.step++
      for (const caller of CALLERS) this.#model.of('tokens', caller).refill(this.#tested.nowMs)
      await this.#do(act)
      await this.#compare(act)
    }
  }

  async #do(act: Act): Promise<void> {
    if (act.what === 'open') return this.#open(act.caller, act.tokens)
    if (act.what === 'reset') return this.#reset(act.caller, act.rule)
    if (act.what === 'load') {
      this.#model.plan = PLANS[act.plan]!
      return this.#engine.activate(newPlan(this.#model.plan))
    }
    if (act.what === 'reach') {
      await this.#tested.reach?.(act.reach)
      return this.#model.reachBy(this.#isRemote ? act.reach : 'up')
    }
    const stream = this.#streams[act.which % this.#streams.length]
    if (stream === undefined) return
    if (act.what === 'grow') for (let i = 0; i < act.times; i++) await this.#grow(stream, act.tokens)
    else await this.#settle(stream, act.share, act.meanwhile)
  }

  async #open(caller: string, tokens: number): Promise<void> {
    const view = new PlainRequestView({ method: 'POST', uri: '/v1/chat', headers: { 'x-key': caller } })
    const body = { promptTokens: 0, requestedTokens: tokens, choices: 1, isStream: true, model: undefined }
    const rules = NAMES.filter((rule) => this.#model.plan[rule] !== undefined)
    const fits = rules.every((rule) => this.#model.fits(rule, caller, tokens * RULES[rule].unit, this.#wallMs))
    const decision = await this.#engine.decide(view, { body })
    expect(decision.action).toBe(fits ? 'allow' : 'reject')
    if (!fits) return
    const { charges } = (decision as Allowed).reservation!
    expect(charges.map(({ rule }) => rule.name)).toEqual(rules)
    const takesShared = rules.every((rule) => this.#model.fitsBoth(rule, caller, tokens * RULES[rule].unit, this.#wallMs))
    const taken = charges.map((charge, i) => {
      const part = this.#model.take(rules[i]!, caller, charge.amount, this.#wallMs, takesShared)
      return { charge, rule: rules[i]!, parts: [part] }
    })
    this.#streams.push({ caller, charges: taken })
  }

  async #grow({ caller, charges }: Stream, tokens: number): Promise<void> {
    for (const { charge, rule, parts } of charges) await this.#growOne(caller, charge, rule, parts, tokens * RULES[rule].unit)
  }

  async #growOne(caller: string, charge: ReservedCharge, rule: RuleName, parts: Part[], amount: number): Promise<void> {
    const isLimited = this.#model.plan[rule] !== undefined
    const fits = isLimited && this.#model.fits(rule, caller, amount, this.#wallMs)
    expect(await this.#engine.grow(charge, amount)).toBe(isLimited ? (fits ? 'granted' : 'refused') : 'not_enforced')
    if (fits) addPart(parts, this.#model.take(rule, caller, amount, this.#wallMs))
    expect(reservedAmount(charge)).toBe(parts.reduce((sum, part) => sum + part.amount, 0))
  }

  /** `meanwhile` is asked for just before: the answer of a remote store comes when the reservation is settled. */
  async #settle(stream: Stream, share: number, meanwhile: number | null): Promise<void> {
    this.#streams.splice(this.#streams.indexOf(stream), 1)
    const { caller } = stream
    for (const { charge, rule, parts } of stream.charges) {
      const isLate = meanwhile !== null && this.#isRemote && this.#model.plan[rule] !== undefined
      if (meanwhile !== null && !isLate) await this.#growOne(caller, charge, rule, parts, meanwhile * RULES[rule].unit)
      const used = Math.floor(reservedAmount(charge) * share)
      if (isLate) await this.#settleWhileGrowing(caller, charge, rule, parts, meanwhile * RULES[rule].unit, used)
      else {
        await this.#engine.settle(charge, used)
        this.#model.settle(rule, caller, parts, used)
      }
    }
  }

  /** Redis is asked first; its answer is measured by the own count after the settlement, and so is a failure. Nothing is left of it but what nobody hears of. */
  async #settleWhileGrowing(caller: string, charge: ReservedCharge, rule: RuleName, parts: Part[], amount: number, used: number) {
    const model = this.#model
    const growing = this.#engine.grow(charge, amount)
    await Promise.all([growing, this.#engine.settle(charge, used)])
    const isTaken = model.takeInVain(rule, caller, amount, this.#wallMs)
    model.settle(rule, caller, parts, used)
    const isGranted = (isTaken || model.reach !== 'up') && model.fitsOwn(rule, caller, amount, this.#wallMs)
    expect(await growing).toBe(isGranted ? 'too_late' : 'refused')
  }

  async #reset(caller: string, rule: RuleName): Promise<void> {
    // Redis has to be there for a reset.
    if (this.#model.reach !== 'up' || this.#model.plan[rule] === undefined) return
    await this.#engine.reset({ policy: 'p', rule, values: { [KEY]: caller } })
    this.#model.reset(rule, caller, this.#wallMs)
  }

  async #compare(act: Act): Promise<void> {
    for (const caller of CALLERS) {
      expect([act, caller, this.#tested.ownMinute(caller)]).toEqual([act, caller, this.#model.of('tokens', caller).minute.level])
      for (const rule of NAMES) {
        const { startMs } = RULES[rule].calendar.windowAt(this.#wallMs)
        // Redis keeps a window and the one before it.
        for (const wallMs of [startMs, startMs - 1]) {
          const ledger = this.#model.of(rule, caller)
          const window = windowOf(rule, wallMs)
          const shown = [act, rule, caller, window]
          expect([...shown, this.#tested.ownUsed(rule, caller, wallMs)]).toEqual([...shown, ledger.ownUsed(window)])
          if (this.#tested.sharedUsed === undefined || this.#model.reach !== 'up') continue
          expect([...shown, await this.#tested.sharedUsed(rule, caller, wallMs)]).toEqual([...shown, ledger.shared.get(window) ?? 0])
        }
      }
    }
  }
}

/** So large that no count is cut off. */
const PROBE_TOKENS = 2 ** 50

/** Tells what is used of a rule's window, or left of its minute, without taking anything. */
class Probe {
  readonly #store: CounterStore
  readonly #plan = newPlan(PLANS[0]!)

  constructor(store: CounterStore) {
    this.#store = store
  }

  async used(rule: RuleName, caller: string, nowMs: number, wallMs: number, reader = this.#store): Promise<number> {
    return PROBE_TOKENS - (await this.#look(rule, 'window', caller, nowMs, wallMs, reader))
  }

  usedNow(rule: RuleName, caller: string, nowMs: number, wallMs: number, reader = this.#store): number {
    return PROBE_TOKENS - (this.#look(rule, 'window', caller, nowMs, wallMs, reader) as number)
  }

  minuteNow(caller: string, nowMs: number, reader = this.#store): number {
    return this.#look('tokens', 'minute', caller, nowMs, START_MS, reader) as number
  }

  #look(
    rule: RuleName,
    what: 'window' | 'minute',
    caller: string,
    nowMs: number,
    wallMs: number,
    reader: CounterStore,
  ): number | Promise<number> {
    const counter = this.#plan.counters.find(
      ({ identity, limit }) => identity.includes(rule) && (limit.kind === WINDOW) === (what === 'window'),
    )!
    const limit = counter.limit.kind === WINDOW ? { ...counter.limit, tokens: PROBE_TOKENS } : counter.limit
    const [charges, results] = [new Charges(), new ChargeResults()]
    charges.addValue(caller)
    charges.add(this.#store.open({ identity: counter.identity, limit, sinceMs: 0, isSettled: true }), 0)
    const checked = reader.checkAll(charges, results, nowMs, wallMs)
    return checked instanceof Promise ? checked.then(() => results.levels[0]!) : results.levels[0]!
  }
}

function local(store: CounterStore): Tested {
  const probe = new Probe(store)
  const tested: Tested = {
    store,
    nowMs: 0,
    ownUsed: (rule, caller, wallMs) => probe.usedNow(rule, caller, tested.nowMs, wallMs),
    ownMinute: (caller) => probe.minuteNow(caller, tested.nowMs),
  }
  return tested
}

/** An instance on a real Redis that can be cut off. A second one, which has counted nothing itself, tells what Redis has. */
function remote(clocked: ClockedLink, prefix: string, leaseMs: number | undefined): Tested {
  const instance = new ClockedInstance(clocked, prefix, { failureMode: 'local', leaseMs })
  const other = new ClockedInstance(clocked, prefix)
  const [probe, otherProbe] = [new Probe(instance.store), new Probe(other.store)]
  let reach: Reach = 'up'
  const unless = (wanted: Reach, outcome: 'not_sent' | 'unknown') => async () =>
    reach === wanted ? new LinkError(outcome, 'unreachable', 'Redis is unreachable') : undefined
  instance.onWayOut = unless('down', 'not_sent')
  instance.onWayBack = unless('lost', 'unknown')
  const at = (wallMs: number): void => {
    clocked.wallMs = wallMs
  }
  at(START_MS)
  return {
    store: instance.store,
    get nowMs() {
      return clocked.nowMs
    },
    set nowMs(nowMs) {
      clocked.nowMs = nowMs
      at(START_MS + nowMs)
    },
    ownUsed: (rule, caller, wallMs) => probe.usedNow(rule, caller, clocked.nowMs, wallMs, instance.local),
    ownMinute: (caller) => probe.minuteNow(caller, clocked.nowMs, instance.local),
    async sharedUsed(rule, caller, wallMs) {
      at(wallMs)
      const used = await otherProbe.used(rule, caller, clocked.nowMs, wallMs)
      at(START_MS + clocked.nowMs)
      return used
    },
    async reach(next) {
      reach = next
      if (reach === 'up') await instance.sendUnsent()
    },
  }
}

test.each<[string, () => CounterStore]>([
  ['a Map', () => new MapStore()],
  ['the table', () => newEmbeddedStore(256 * 1024)],
])('streams over ends of windows, resets and reloads settle each part where it was taken, in %s', async (_, newStore) => {
  await fc.assert(
    fc.asyncProperty(schedule, (steps) => new Trial(local(newStore())).run(steps)),
    { numRuns: sized(8, 600), examples: EXAMPLES.map((example) => [example]) },
  )
})

describeWithRedis('streams over ends of windows, resets, reloads and outages settle each part where it was taken', () => {
  test.for([
    ['exact', undefined],
    ['leased', 1000],
  ] as const)('in Redis, %s', async ([, leaseMs]) => {
    const { link } = await usableLink((await runningRedis()).url, 60_000)
    let prefixes = 0
    const examples = EXAMPLES.slice(0, sized(2, EXAMPLES.length)).map((example): [typeof example] => [example])
    await fc.assert(
      fc.asyncProperty(schedule, (steps) => {
        const clocked = new ClockedLink(link)
        return new Trial(remote(clocked, `edge:${prefixes++}:`, leaseMs)).run(steps)
      }),
      { numRuns: sized(1, 90) + examples.length, examples },
    )
  })
})
