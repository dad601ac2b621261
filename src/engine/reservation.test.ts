import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { takeRowsNow } from '../../test/support/store/charging.ts'
import { type Cost, RELEASED } from '../costs/cost.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { PlanRule } from '../policy/plan.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed, Rejected } from './decision.ts'
import { Engine } from './engine.ts'
import { settledAmount } from './reservation.ts'

const CHAT = '/v1/chat/completions'

describe('a reservation', () => {
  test.each([
    ['what the request asks for, where the rule allows more', 50, 70, 12 + 50],
    ['what the rule allows, where the request asks for more', 90, 70, 12 + 70],
    ['what the rule allows, where the request sets no bound', undefined, 70, 12 + 70],
    ['what the request asks for, where the rule sets no bound', 2500, undefined, 12 + 2500],
    ['1000, where neither sets a bound', undefined, undefined, 12 + 1000],
  ])('is the prompt and %s', (_, requestedTokens, max, tokens) => {
    const config = { tokens_per_minute: 6000, tokens_per_day: 9000, ...(max && { max_completion_tokens: max }) }
    const service = newService(policy('p', { rules: [llmRule('budget', ['header:x-key'], config)] }))
    const { reservation } = service.allow(CHAT, { promptTokens: 12, requestedTokens })
    expect(reservation!.charges).toMatchObject([{ rule: { name: 'budget' }, amount: tokens, values: ['a'] }])
    expect(service.levels()).toEqual([6000 - tokens, 9000 - tokens])
  })

  test('is the prompt alone where no text is generated', () => {
    const service = newService(budget('p', { tokens_per_minute: 6000, max_completion_tokens: 70 }))
    const { reservation } = service.allow('/v1/embeddings?x=1', { promptTokens: 12, requestedTokens: 50 })
    expect(reservation!.charges.map(({ amount }) => amount)).toEqual([12])
    expect(service.levels()).toEqual([6000 - 12])
  })

  test('may be of nothing, and is there to be settled all the same', () => {
    const service = newService(budget('p', { tokens_per_minute: 6000 }))
    const { reservation } = service.allow('/v1/embeddings', { promptTokens: 0 })
    expect(reservation!.charges.map(({ amount }) => amount)).toEqual([0])
    expect(service.levels()).toEqual([6000])
  })

  test('that no body is read for has nothing to settle, and stands', () => {
    const config = { tokens_per_minute: 6000, max_completion_tokens: 70 }
    const service = newService(budget('p', config), budget('s', config, [], 'shadow'))
    expect(service.allow(CHAT, undefined).reservation).toBeUndefined()
    expect(service.levels()).toEqual([6000 - 70, 6000 - 70])
    expect(service.allow('/v1/embeddings', undefined).reservation).toBeUndefined()
    expect(service.levels()).toEqual([6000 - 70, 6000 - 70])
  })

  test('is none where no rule counts tokens, or none of them covers the request', () => {
    const service = newService(
      policy('plain', { rules: [bucketRule('r', [], 5)] }),
      policy('tokens', { selector: { pathPrefix: '/v1' }, rules: [llmRule('budget', ['header:x-key'], { tokens_per_minute: 6000 })] }),
    )
    expect(service.allow('/elsewhere', { promptTokens: 10 }).reservation).toBeUndefined()
    expect(service.allow(CHAT, { promptTokens: 10 }, {}).reservation).toBeUndefined()
    expect(service.levels()).toEqual([3, 6000])
  })

  test('has a hold for each rule that counts tokens, and none for the others', () => {
    const service = newService(
      policy('p', {
        rules: [
          llmRule('small', ['header:x-key'], { tokens_per_minute: 6000, max_completion_tokens: 30 }),
          bucketRule('requests', ['header:x-key'], 5),
          llmRule('of a team', ['header:x-team', 'header:x-key'], {
            tokens_per_minute: 6000,
            tokens_per_day: 9000,
            max_completion_tokens: 40,
          }),
        ],
      }),
      budget('everyone', { tokens_per_day: 9000 }, []),
    )
    const { reservation } = service.allow(CHAT, { promptTokens: 5, requestedTokens: 60 }, { 'x-key': 'a', 'x-team': 't' })
    expect(reservation!.charges.map(({ rule, amount, values }) => [rule.policy.id, rule.name, amount, values])).toEqual([
      ['p', 'small', 35, ['a']],
      ['p', 'of a team', 45, ['t', 'a']],
      ['everyone', 'budget', 65, []],
    ])
  })

  test('is held by any rule whose cost is settled, in the unit of its limit, and by no other', () => {
    const service = newService(policy('p', { rules: [bucketRule('fares', ['header:x-key'], 100), bucketRule('requests', [], 5)] }))
    const fare: Cost = {
      needsBody: false,
      isLeasable: false,
      of: ({ path }) => path.length,
      settling: {
        at: 'usage',
        applies: ({ path }) => path !== '/free',
        settled: (amount, usage) => (usage === 'unknown' ? undefined : amount / 2),
        record: RELEASED,
      },
    }
    service.replaceCost('fares', fare)
    const { reservation } = service.allow('/trains', undefined)
    const [hold, ...others] = reservation!.charges
    expect(hold).toMatchObject({ rule: { name: 'fares' }, amount: 7, values: ['a'] })
    expect(others).toEqual([])
    expect(settledAmount(hold!, 'unknown')).toBe(7)
    service.engine.settle(hold!, settledAmount(hold!, 'nothing'))
    expect(service.levels()).toEqual([96.5, 4])
    expect(service.allow('/free', undefined).reservation).toBeUndefined()
    expect(service.levels()).toEqual([91.5, 3])
  })

  test('of one request is not another’s', () => {
    const service = newService(budget('p', { tokens_per_minute: 6000 }))
    const first = service.allow(CHAT, { promptTokens: 1, requestedTokens: 10 })
    const second = service.allow(CHAT, { promptTokens: 2, requestedTokens: 20 }, { 'x-key': 'b' })
    expect(first.reservation!.charges).toMatchObject([{ amount: 11, values: ['a'] }])
    expect(second.reservation!.charges).toMatchObject([{ amount: 22, values: ['b'] }])
    expect(service.allow(CHAT, undefined).reservation).toBeUndefined()
  })
})

describe('a request that a budget cannot cover', () => {
  test('is told what it asked for and what there was, in whole tokens', () => {
    const service = newService(budget('p', { tokens_per_minute: 600, tokens_per_day: 9000 }))
    service.allow(CHAT, { promptTokens: 100, requestedTokens: 400 })
    service.clock.advance(150) // 1.5 tokens
    const rejected = service.reject(CHAT, { promptTokens: 20, requestedTokens: 300 })
    expect(rejected).toMatchObject({ reason: 'tpm_exceeded', canRetry: true, requested: 320, available: 101, limit: { limitText: '600' } })
    expect(rejected.limit!.resetMs).toBeCloseTo((320 - 101.5) * 100, 6)
    expect('reservation' in rejected && rejected.reservation).toBeFalsy()
  })

  test('is told of the day where the minute has enough', () => {
    const service = newService(budget('p', { tokens_per_minute: 6000, tokens_per_day: 900 }))
    service.allow(CHAT, { promptTokens: 0, requestedTokens: 700 })
    const rejected = service.reject(CHAT, { promptTokens: 1, requestedTokens: 200 })
    expect(rejected).toMatchObject({ reason: 'tpd_exceeded', requested: 201, available: 200, limit: { limitText: '900' } })
  })

  test('is told of the minute where neither has enough, and to wait for the longer of the two', () => {
    const service = newService(budget('p', { tokens_per_minute: 800, tokens_per_day: 900 }))
    service.allow(CHAT, { promptTokens: 0, requestedTokens: 750 })
    const rejected = service.reject(CHAT, { promptTokens: 0, requestedTokens: 200 })
    expect(rejected).toMatchObject({
      reason: 'tpm_exceeded',
      requested: 200,
      available: 50,
      limit: { limitText: '800', resetMs: 12 * 3_600_000 },
    })
  })

  test('may be larger than it can ever hold', () => {
    const service = newService(budget('p', { tokens_per_minute: 600 }))
    expect(service.reject(CHAT, { promptTokens: 601, requestedTokens: 1 })).toMatchObject({
      reason: 'tpm_exceeded',
      canRetry: false,
      requested: 602,
      available: 600,
    })
  })

  test('is never told of less than nothing', () => {
    const service = newService(budget('p', { tokens_per_minute: 600 }))
    const { reservation } = service.allow(CHAT, { promptTokens: 0, requestedTokens: 600 })
    service.engine.settle(reservation!.charges[0]!, 900)
    expect(service.reject(CHAT, { promptTokens: 0, requestedTokens: 100 })).toMatchObject({
      requested: 100,
      available: 0,
      limit: { remaining: 0, resetMs: 40_000 },
    })
    // Nothing stands against taking nothing, and what is left is nothing.
    expect(service.allow('/v1/embeddings', { promptTokens: 0 }).limit).toMatchObject({ remaining: 0, resetMs: 90_000 })
  })

  test('takes nothing from the plain rules beside it, nor from another budget', () => {
    const service = newService(
      policy('plain', { rules: [bucketRule('r', ['header:x-key'], 5, 1)] }),
      budget('large', { tokens_per_minute: 6000, tokens_per_day: 9000 }),
      budget('small', { tokens_per_minute: 600 }),
    )
    const rejected = service.reject(CHAT, { promptTokens: 0, requestedTokens: 601 })
    expect(rejected).toMatchObject({ rule: { policy: { id: 'small' } }, requested: 601, available: 600 })
    expect(service.levels()).toEqual([5, 6000, 9000, 600])
  })

  test('takes nothing of it when a plain rule rejects, which asked for one', () => {
    const service = newService(
      policy('plain', { rules: [bucketRule('r', ['header:x-key'], 1, 1)] }),
      budget('large', { tokens_per_minute: 6000, tokens_per_day: 9000 }),
    )
    service.allow(CHAT, { promptTokens: 0, requestedTokens: 10 })
    const rejected = service.reject(CHAT, { promptTokens: 0, requestedTokens: 10 })
    expect(rejected).toMatchObject({ reason: 'token_bucket_exceeded', requested: 1, available: 0 })
    expect(service.levels()).toEqual([0, 5990, 8990])
  })

  test('takes nothing from shadow policies', () => {
    const service = newService(budget('p', { tokens_per_minute: 600 }), budget('s', { tokens_per_minute: 6000 }, [], 'shadow'))
    service.reject(CHAT, { promptTokens: 0, requestedTokens: 601 })
    expect(service.levels()).toEqual([600, 6000])
  })
})

describe('a shadow policy', () => {
  const enforcing = budget('p', { tokens_per_minute: 6000, max_completion_tokens: 300 })
  const shadow = budget('s', { tokens_per_minute: 600, max_completion_tokens: 200 }, ['header:x-key'], 'shadow')

  test('holds on counters of its own, what its own rules reserve', () => {
    const service = newService(enforcing, shadow)
    const { reservation } = service.allow(CHAT, { promptTokens: 10, requestedTokens: 500 })
    expect(reservation!.charges.map(({ rule, amount, values }) => [rule.policy.id, amount, values])).toEqual([
      ['p', 310, ['a']],
      ['s', 210, ['a']],
    ])
    expect(service.levels()).toEqual([6000 - 310, 600 - 210])
  })

  test('alone has a reservation too', () => {
    const { reservation, limit } = newService(shadow).allow(CHAT, { promptTokens: 10, requestedTokens: 500 })
    expect(reservation!.charges.map(({ rule }) => rule.policy.id)).toEqual(['s'])
    expect(limit).toBeUndefined()
  })

  test('that would reject holds nothing, and the others hold what they took', () => {
    const other = budget('t', { tokens_per_day: 9000 }, ['header:x-key'], 'shadow')
    const service = newService(enforcing, shadow, other)
    for (let i = 0; i < 3; i++) service.allow('/v1/embeddings', { promptTokens: 200 })
    const decision = service.allow(CHAT, { promptTokens: 10, requestedTokens: 500 })
    expect(decision.wouldRejects).toMatchObject([{ rule: { policy: { id: 's' } }, reason: 'tpm_exceeded' }])
    expect(decision.reservation!.charges.map(({ rule }) => rule.policy.id)).toEqual(['p', 't'])
    expect(service.levels()).toEqual([6000 - 600 - 310, 0, 9000 - 600 - 510])
  })
})

function budget(id: string, config: object, keys = ['header:x-key'], mode = 'enforce'): PolicyText {
  return policy(id, { mode, rules: [llmRule('budget', keys, config)] })
}

interface Body {
  readonly promptTokens: number
  readonly requestedTokens?: number | undefined
}

function newService(...policies: PolicyText[]) {
  const clock = new ManualClock()
  const store = newEmbeddedStore(64 * 1024)
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const plan = compileBundle(parsed.bundle)
  engine.activate(plan)
  function decide(uri: string, body: Body | undefined, headers: Record<string, string>) {
    const view = new PlainRequestView({ method: 'POST', uri, headers })
    const read = body && { requestedTokens: undefined, choices: 1, isStream: false, model: undefined, ...body }
    return engine.decide(view, { body: read })
  }
  return {
    engine,
    clock,
    replaceCost(name: string, cost: Cost): void {
      const rules = plan.policies[0]!.rules as PlanRule[]
      const place = rules.findIndex((rule) => rule.name === name)
      rules[place] = { ...rules[place]!, cost }
      engine.activate({ ...plan, hasSettledCosts: true })
    },
    allow(uri: string, body: Body | undefined, headers: Record<string, string> = { 'x-key': 'a' }): Allowed {
      const decision = decide(uri, body, headers)
      expect(decision).toMatchObject({ action: 'allow' })
      return decision as Allowed
    },
    reject(uri: string, body: Body | undefined): Rejected {
      const decision = decide(uri, body, { 'x-key': 'a' })
      expect(decision).toMatchObject({ action: 'reject' })
      return decision as Rejected
    },
    /** What caller a has left, counter after counter of the bundle. */
    levels(): number[] {
      return plan.policies
        .flatMap(({ rules }) => rules)
        .flatMap(({ counters, limitKeys }) =>
          counters.map(({ identity, limit }) => {
            const counter = store.open({ identity, limit, sinceMs: 0 })
            return takeRowsNow(store, [{ counter, values: limitKeys.length > 0 ? ['a'] : [], cost: 0 }], clock.nowMs(), clock.wallMs())
              .levels[0]!
          }),
        )
    },
  }
}
