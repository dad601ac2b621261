import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, LlmProxy, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = [
  llmRule('all', [], { tokens_per_minute: 40_000, tokens_per_day: 20_000 }),
  llmRule('each', ['header:x-k'], { tokens_per_minute: 1000 }),
  budgetRule('money', [], { budget: 100, period: '1d', prices: 'main' }),
  bucketRule('requests', [], 100),
]
const BUNDLE = { ...bundle(1, policy('plain', { rules: [bucketRule('r', [], 100)] }), policy('llm', { rules: RULES })), prices: PRICES }

async function usage(port: number, query = '') {
  const { status, json } = await askAdmin(port, 'GET', `usage${query}`)
  expect(status).toBe(200)
  return json
}

describe('GET usage', () => {
  test('shows what rules counted, and what is left where all callers share a budget', async () => {
    const clock = new ManualClock()
    const edge = await running({ clock, bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(await fakeLlm()) } })
    const proxy = new LlmProxy(edge, clock, 0, 0)
    const rulesOf = async () => (await usage(edge.adminPort)).rules
    const nothing = { last_minute: 0, last_15_minutes: 0, since_start: 0 }
    expect(await rulesOf()).toMatchObject([
      {
        policy: 'llm',
        rule: 'all',
        unit: 'tokens',
        mode: 'enforce',
        limit_keys: [],
        used: nothing,
        counters: [{ kind: 'minute' }, { kind: 'day' }],
      },
      { rule: 'each', unit: 'tokens', limit_keys: ['header:x-k'], used: nothing, counters: null },
      {
        rule: 'money',
        unit: 'money',
        algorithm: 'cost_budget',
        used: nothing,
        counters: [{ kind: 'budget', level: 10_000, limit: 10_000 }],
      },
    ])
    const body = { model: 'big', messages: HELLO, max_tokens: 10 }
    const { prompt_tokens, completion_tokens } = JSON.parse((await proxy.post(CHAT, body, [['X-K', 'alice']])).body).usage
    await until(async () => (await rulesOf())[0].used.last_minute > 0)
    const tokens = prompt_tokens + completion_tokens
    // Hundredths of a unit: a prompt token costs one, a completion token two.
    const cents = prompt_tokens + 2 * completion_tokens
    const [all, money, each] = await rulesOf()
    const used = { last_minute: tokens, last_15_minutes: tokens, since_start: tokens }
    expect(all).toMatchObject({ rule: 'all', used, counters: [{ level: 40_000 - tokens }, { kind: 'day', level: 20_000 - tokens }] })
    expect(each).toMatchObject({ rule: 'each', used, counters: null })
    expect(money.rule).toBe('money')
    expect(money.used.since_start).toBeCloseTo(cents / 100, 9)
    expect(money.counters[0].level).toBeCloseTo(10_000 - cents, 6)
  })

  test('in decision_service responses are not seen, and what is left is known all the same', async () => {
    const edge = await running({ bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_GATEWAY_HINTS: 'on' }, clock: new ManualClock() })
    await edge.decide({
      fields: [
        ['X-Edge-Prompt-Tokens', '100'],
        ['X-Edge-Max-Tokens', '200'],
      ],
    })
    const { rules, total } = await usage(edge.adminPort)
    expect(total).toBe(3)
    expect(rules[0]).toMatchObject({ rule: 'all', used: null, counters: [{ level: 40_000 - 300 }, { level: 20_000 - 300 }] })
  })

  test('lists so many, and says how many there are', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    expect(await usage(edge.adminPort, '?limit=1')).toMatchObject({ total: 3, rules: [{ rule: 'all' }] })
    expect(await askAdmin(edge.adminPort, 'GET', 'usage?limit=0')).toMatchObject({ status: 400 })
    expect(await usage((await running({ env: ADMIN_ENV })).adminPort)).toMatchObject({ total: 0, rules: [] })
  })
})
