import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import { beforeEach, expect, test } from 'vitest'
import type { Usage } from '../../src/costs/cost.ts'
import type { Allowed, Decision } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Explanation } from '../../src/engine/explain/explanation.ts'
import { settledAmount } from '../../src/engine/reservation.ts'
import { DAY_MS } from '../../src/limiter/calendar.ts'
import { tokenCounts } from '../../src/llm/usage.ts'
import { compileBundle } from '../../src/policy/compile.ts'
import { parseBundle } from '../../src/policy/parse.ts'
import { PlainRequestView } from '../../src/request/view.ts'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { FleetStore } from '../../src/store/redis/fleet-store.ts'
import { Leases } from '../../src/store/redis/leases/leases.ts'
import { counterScripts } from '../../src/store/redis/scripts.ts'
import { SharedCounters } from '../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { systemClock } from '../../src/time/clock.ts'
import {
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  llmRule,
  matching,
  policy,
  rateRule,
  unlimitedRule,
  windowRule,
} from '../support/bundles/bundles.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'

/** Rules of all kinds in one request, with next to no refill: whatever rejects it, nothing is taken from any of them, on every store. */

const KEY = ['header:x-key']
const COST = { header: 'x-cost', default: 1, max: 9 }
/** Leased tokens are counted apart. */
const LEASED = ['pro', 'plain']
const TEST_MS = 300_000

function rulesOf(more: number): object[] {
  return [
    matching({ 'header:x-plan': 'pro' }, bucketRule('pro', KEY, 12 + more, 1e-9)),
    unlimitedRule('staff', { 'header:x-plan': 'staff' }),
    matching('else', windowRule('others', KEY, { limit: 9 + more, period: '1y', timezone: 'Asia/Kolkata' })),
    rateRule('cost', KEY, { rate: '0.0001/day', burst: 30 + more, cost: COST }),
    windowRule('debt', KEY, { limit: 25 + more, period: '1y', cost: COST, when_over: 'charge' }),
    concurrencyRule('flight', KEY, 3, 600),
    budgetRule('priced', KEY, { budget: 0.05, prices: 'main', period: '1y', warn_at_percent: [10, 50, 100] }),
    budgetRule('given', KEY, { budget: 0.9, cost: { header: 'x-price', default: 0.01 }, period: '1y', warn_at_percent: [50] }),
    llmRule('tokens', KEY, { tokens_per_day: 50_000 }),
    bucketRule('plain', KEY, 40, 1e-9),
  ]
}

const PLAN = planOf({
  ...bundle(1, policy('live', { rules: rulesOf(0) }), policy('trial', { mode: 'shadow', rules: rulesOf(-4) })),
  prices: { main: { 'a*': { input: 1, cached_input: 0.1, output: 3 }, '*': { input: 5.000001, output: 10.333333 } } },
})

const question = fc.record({
  headers: fc.record(
    {
      'x-key': fc.constantFrom('a', 'b'),
      'x-plan': fc.constantFrom('pro', 'staff', 'free'),
      'x-cost': fc.constantFrom('2', '0.5', '-1', 'NaN', '99', '0'),
      'x-price': fc.constantFrom('0.1', '0.000000001', 'x', '5'),
    },
    { requiredKeys: ['x-plan'] },
  ),
  requestedTokens: fc.constantFrom(undefined, 10, 2000),
  model: fc.constantFrom('a1', 'b', undefined),
})
const settlement = fc.oneof(
  fc.constantFrom<Usage>('nothing', 'unknown'),
  fc.nat(3000).map((output): Usage => ({ tokens: tokenCounts(1000, output, CACHE), isStreamed: true })),
)
const CACHE = { cachedInput: 400, cacheWrite: 10 }
const steps = fc.array(fc.oneof({ weight: 3, arbitrary: question }, { weight: 2, arbitrary: settlement }), { minLength: 40, maxLength: 60 })

describeWithRedis('rules of all kinds in one request', () => {
  let redis: RedisServer
  beforeEach(async () => {
    redis = await runningRedis()
    // The clock of Redis is the real one, and a new day would be full again.
    const untilMidnightMs = DAY_MS - (Date.now() % DAY_MS)
    if (untilMidnightMs < TEST_MS) await setTimeout(untilMidnightMs)
  }, 2 * TEST_MS)

  test(
    'are taken from all or none, alike in memory, in Redis and with leases',
    async () => {
      const property = fc.asyncProperty(steps, async (list) => {
        await redis.command('FLUSHALL')
        const services = [new Service(newEmbeddedStore(1024 * 1024)), await fleet('exact:', false), await fleet('leased:', true)]
        for (const step of list) {
          const told: unknown[] = []
          for (const service of services) told.push(await service.do(step))
          expect(told[1]).toEqual(told[0])
          expect(told[2]).toEqual(told[0])
        }
        const [own, exact, leased] = services.map(({ warnings }) => warnings)
        expect([exact, leased]).toEqual([own, own])
      })
      await fc.assert(property, { numRuns: 5 })
    },
    TEST_MS,
  )

  async function fleet(prefix: string, isLeased: boolean): Promise<Service> {
    const { link } = await usableLink(redis.url)
    const shared = new SharedCounters(link, counterScripts(), { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const local = newEmbeddedStore(1024 * 1024)
    const listener = { onDecided() {}, onHeld() {}, onTokens() {} }
    const leases = isLeased ? new Leases({ shared, local, leaseMs: 60_000, clock: systemClock, listener }) : undefined
    return new Service(new FleetStore({ shared, local, leases, failureMode: 'closed', clock: systemClock, listener }))
  }
})

/** One store, and the requests under way on it. */
class Service {
  readonly warnings: string[] = []
  readonly #engine: Engine
  readonly #open: Allowed[] = []

  constructor(store: CounterStore) {
    const onBudgetWarning: ConstructorParameters<typeof Engine>[0]['onBudgetWarning'] = ({ rule, values, percent }) =>
      this.warnings.push(`${rule.policy.id} ${rule.name} ${values} ${percent}`)
    this.#engine = new Engine({ store, clock: systemClock, onBudgetWarning })
    this.#engine.activate(PLAN)
  }

  /** Returns what must be the same on every store: what was decided, and what is left then. */
  async do(step: Step): Promise<unknown> {
    const decided = typeof step === 'object' && 'headers' in step ? await this.#ask(step) : await this.#settle(step)
    return [decided, await this.#levels()]
  }

  async #ask({ headers, requestedTokens, model }: Question): Promise<unknown> {
    const view = () => new PlainRequestView({ method: 'POST', uri: '/v1/chat', headers: { ...headers } as Record<string, string> })
    const body = { promptTokens: 100, requestedTokens, choices: 1, isStream: true, model }
    const before = await this.#levels()
    const { decision: foretold } = (await this.#engine.explain(view(), { body })) as Explanation
    const decision = await this.#engine.decide(view(), { body })
    expect(toldOf(foretold)).toEqual(toldOf(decision))
    if (decision.action === 'allow') this.#open.push(decision)
    else expect(await this.#levels()).toEqual(before)
    return toldOf(decision)
  }

  /** Ends the oldest request. */
  async #settle(usage: Usage): Promise<void> {
    const { charges = [], holds = [] } = this.#open.shift()?.reservation ?? {}
    for (const charge of charges) await this.#engine.settle(charge, settledAmount(charge, usage))
    for (const hold of holds) await this.#engine.settle(hold, 0)
  }

  async #levels(): Promise<Record<string, number[]>> {
    const levels: Record<string, number[]> = {}
    for (const { id, rules } of PLAN.policies) {
      for (const { name } of rules.filter((rule) => rule.counters.length > 0 && !LEASED.includes(rule.name))) {
        for (const key of ['a', 'b']) {
          const inspection = await this.#engine.inspect({ policy: id, rule: name, values: { 'header:x-key': key } })
          if (!inspection.ok) throw new Error(inspection.error)
          levels[`${id} ${name} ${key}`] = inspection.counters.map(({ level }) => Number(level.toFixed(6)))
        }
      }
    }
    return levels
  }
}

type Question = typeof question extends fc.Arbitrary<infer Q> ? Q : never
type Step = Question | Usage

function toldOf(decision: Decision): unknown {
  if (decision.action === 'refuse') return decision
  const { action, reason, wouldRejects, missingKeys } = decision
  return { action, reason, wouldRejects: wouldRejects.map(({ rule, reason }) => [rule.name, reason]), missingKeys }
}

function planOf(text: object) {
  const parsed = parseBundle(JSON.stringify(text))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}
