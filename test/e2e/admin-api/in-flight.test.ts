import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, LlmProxy, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const GROWING = { reserve: { first: 100, step: 100 } }
const RULES = [
  llmRule('each', ['header:x-k'], { tokens_per_minute: 40_000, tokens_per_day: 20_000, ...GROWING }),
  llmRule('whole', [], { tokens_per_day: 90_000 }),
  budgetRule('money', [], { budget: 1000, period: '1d', prices: 'main', ...GROWING }),
]
const BUNDLE = { ...bundle(1, policy('llm', { rules: RULES })), prices: PRICES }
const ASKED = { model: 'big', messages: HELLO, max_tokens: 500 }
const ALICE = [['X-K', 'alice']] as const
/** One token each. */
const words = (count: number): string => Array.from({ length: count }, () => chatChunk({ content: 'abcd' })).join('')
/** A prompt token may be written to the cache, for 0.03; a completion token costs 0.02. */
const reservedMoney = (completion: number): number => (3 * HELLO_TOKENS + 2 * completion) / 100

test('what requests in flight have reserved is shown apart from what was used, and what grows apart from what does not', async () => {
  const backend = await scriptedLlm()
  const clock = new ManualClock()
  const edge = await running({ clock, bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) } })
  const proxy = new LlmProxy(edge, clock, 40_000, 20_000)
  const shown = async (rule: string) => {
    const { rules } = (await askAdmin(edge.adminPort, 'GET', 'usage')).json
    return rules.find((one: { rule: string }) => one.rule === rule)
  }
  const nearest = async () => {
    const found = (await askAdmin(edge.adminPort, 'GET', 'top?policy=llm&rule=each')).json.nearest
    return found.map(({ kind, reserved }: { kind: string; reserved?: number }) => [kind, reserved])
  }
  const NONE = { requests: 0, reserved: 0, growing: { requests: 0, reserved: 0 } }
  expect([(await shown('each')).in_flight, (await shown('money')).counters]).toMatchObject([NONE, [{ kind: 'budget', reserved: 0 }]])

  const whole = proxy.open(CHAT, ASKED, [...ALICE])
  const wholeCall = await backend.next()
  const stream = proxy.open(CHAT, { ...ASKED, stream: true }, [...ALICE])
  const call = await backend.next()
  call.begin()
  await call.write(words(50))
  await stream.untilText('abcd')
  const begun = HELLO_TOKENS + 100
  const all = HELLO_TOKENS + 500
  expect((await shown('each')).in_flight).toEqual({ requests: 2, reserved: all + begun, growing: { requests: 1, reserved: begun } })
  // The stream of a rule without `reserve` holds its whole bound.
  expect(await shown('whole')).toMatchObject({
    used: { since_start: 0 },
    in_flight: { requests: 2, reserved: 2 * all, growing: { requests: 0, reserved: 0 } },
    counters: [{ kind: 'day', level: 90_000 - 2 * all, reserved: 2 * all }],
  })
  const money = await shown('money')
  expect(money).toMatchObject({ unit: 'money', in_flight: { requests: 2, growing: { requests: 1, reserved: reservedMoney(100) } } })
  expect(money.in_flight.reserved).toBeCloseTo(reservedMoney(500) + reservedMoney(100), 9)
  expect(money.counters[0].reserved).toBeCloseTo(100 * money.in_flight.reserved, 6)

  // The estimate of the prompt's price is too high, so money asks a little later than tokens do.
  await call.write(words(4))
  const grown = HELLO_TOKENS + 200
  await until(async () => (await shown('each')).in_flight.growing.reserved === grown)
  await until(async () => (await shown('money')).in_flight.growing.reserved === reservedMoney(200))
  expect(await metric(edge.adminPort, 'edge_llm_tokens_in_flight{policy="llm",rule="each",reservation="growing"}')).toBe(grown)
  expect(await metric(edge.adminPort, 'edge_llm_reservations_in_flight{policy="llm",rule="each",reservation="whole"}')).toBe(1)

  // A caller's own, in a day; a minute refills, whatever is given back.
  const values = { 'header:x-k': 'alice' }
  const { counters } = (await askAdmin(edge.adminPort, 'POST', 'counters', { body: { policy: 'llm', rule: 'each', values } })).json
  expect(counters).toMatchObject([{ kind: 'minute' }, { kind: 'day', level: 20_000 - all - grown, reserved: all + grown }])
  expect(counters[0]).not.toHaveProperty('reserved')
  const day = { kind: 'day', level: 20_000 - all - grown, reserved: all + grown }
  const question = { method: 'POST', uri: CHAT, host: 'a', headers: { 'x-k': 'alice' }, body: JSON.stringify(ASKED) }
  const explained = (await askAdmin(edge.adminPort, 'POST', 'explain', { body: question })).json
  expect(explained.policies[0].rules[0].counters[1]).toMatchObject(day)
  expect(await nearest()).toEqual([['day', all + grown]])

  call.end(sse('[DONE]'))
  wholeCall.answer(502, {})
  await Promise.all([stream.untilClosed(), whole.untilClosed()])
  for (const rule of ['each', 'whole', 'money']) await until(async () => (await shown(rule)).in_flight.requests === 0)
  expect((await shown('money')).in_flight).toEqual(NONE)
  await until(async () => (await shown('whole')).counters[0].reserved === 0)
  expect(await shown('whole')).toMatchObject({ counters: [{ level: 90_000 - HELLO_TOKENS - 54, reserved: 0 }] })
  expect(await nearest()).toEqual([['day', 0]])
  expect(await metric(edge.adminPort, 'edge_cost_in_flight{policy="llm",rule="money",reservation="growing"}')).toBe(0)
})

test('a reservation that cannot grow after all is one that does not', async () => {
  const backend = await scriptedLlm()
  const clock = new ManualClock()
  const edge = await running({ clock, bundle: BUNDLE, env: { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) } })
  const proxy = new LlmProxy(edge, clock, 40_000, 20_000)
  const client = proxy.open(CHAT, { ...ASKED, stream: true }, [...ALICE])
  const call = await backend.next()
  // A whole response where a stream was asked for.
  call.begin({ 'content-type': 'application/json' })
  await call.write('{')
  const all = HELLO_TOKENS + 500
  const reserved = async () => (await askAdmin(edge.adminPort, 'GET', 'usage')).json.rules[0].in_flight
  await until(async () => (await reserved()).growing.requests === 0)
  expect(await reserved()).toEqual({ requests: 1, reserved: all, growing: { requests: 0, reserved: 0 } })
  client.abort()
  await until(async () => (await reserved()).requests === 0)
})

test('decision_service knows of no requests in flight', async () => {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  const { rules } = (await askAdmin(edge.adminPort, 'GET', 'usage')).json
  expect(rules[1]).toMatchObject({ rule: 'whole', in_flight: null })
  expect(rules[1].counters[0]).not.toHaveProperty('reserved')
})
