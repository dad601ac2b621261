import { describe, expect, test } from 'vitest'
import { budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { ASKED, reserved, settle, settleWith } from '../../support/settle/settling.ts'

/** Per million tokens: 2 in, 0.5 from the cache, 10 out; a hundred times that for any other model. */
const PRICES = {
  list: { 'small*': { input: 2, cached_input: 0.5, output: 10 }, '*': { input: 200, cached_input: 50, output: 1000 } },
}
const SMALL: Fields = [...ASKED, ['X-Edge-Model', 'small-1'], ['X-Edge-Prompt-Tokens', '100000'], ['X-Edge-Max-Tokens', '50000']]

function budget(config: object, version = 1, prices: object | undefined = PRICES): object {
  const rules = [budgetRule('money', ['header:x-key'], { budget: 10, ...config })]
  return { ...bundle(version, policy('p', { rules })), ...(prices && { prices }) }
}

function withHints(content: object): Promise<Edge> {
  return running({ bundle: content, env: { EDGE_GATEWAY_HINTS: 'on' }, clock: new ManualClock() })
}

/** Cents that are left, after a request that costs so little that it does not show. */
async function leftCents(edge: Edge): Promise<number> {
  const fields: Fields = [
    ['X-Key', 'a'],
    ['X-Edge-Model', 'small'],
    ['X-Edge-Max-Tokens', '1'],
    ['X-Cost', '0.000001'],
  ]
  const { headers } = await edge.decide({ fields })
  return Number(headers['ratelimit-remaining']) + 1
}

describe('a budget by prices', () => {
  test.each<[string, object]>([
    ['a day', {}],
    ['a month from day 15', { period: '1mo', anchor: 15 }],
    ['a week from Sunday', { period: '1w', anchor: 'sunday' }],
  ])('for %s is reserved by the hints, and settled by usage at the prices of the model that was hinted', async (_, window) => {
    const edge = await withHints(budget({ prices: 'list', ...window }))
    const token = await reserved(edge, 'a', SMALL)
    // 100,000 × 2 + 50,000 × 10, per million
    expect(await leftCents(edge)).toBe(1000 - 70)
    await settle(edge.port, token, { prompt_tokens: 100_000, completion_tokens: 10_000 })
    expect(await leftCents(edge)).toBe(1000 - 30)
  })

  test('counts cached tokens as a part of the prompt, at their own price', async () => {
    const edge = await withHints(budget({ prices: 'list' }))
    await settle(edge.port, await reserved(edge, 'a', SMALL), { prompt_tokens: 1_000_000, cached_tokens: 800_000, completion_tokens: 0 })
    // 200,000 × 2 + 800,000 × 0.5
    expect(await leftCents(edge)).toBe(1000 - 80)
  })

  test("reads them from a chat API's own usage object", async () => {
    const edge = await withHints(budget({ prices: 'list' }))
    const details = {
      prompt_tokens_details: { cached_tokens: 800_000, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    }
    const usage = { prompt_tokens: 1_000_000, completion_tokens: 0, total_tokens: 1_000_000, ...details }
    const reservation = await reserved(edge, 'a', SMALL)
    expect((await settleWith(edge.port, { reservation, usage })).status).toBe(204)
    expect(await leftCents(edge)).toBe(1000 - 80)
  })

  test('prices what was written to a cache, for an hour or less, a long input and the request itself', async () => {
    const above = { tokens: 500_000, input: 3, output: 20 }
    const small = { input: 2, cache_write: 2.5, cache_write_1h: 4, output: 10, above, per_request: 0.01 }
    const edge = await withHints(budget({ prices: 'list' }, 1, { list: { 'small*': small, '*': { input: 200, output: 1000 } } }))
    const token = await reserved(edge, 'a', SMALL)
    // 100,000 × 4, the dearest price of a prompt token, + 50,000 × 10, and a cent; the request that asks what is left costs a cent too.
    expect(await leftCents(edge)).toBe(1000 - 91 - 1)
    await settle(edge.port, token, { prompt_tokens: 400_000, cache_write_tokens: 300_000, cache_write_1h_tokens: 100_000 })
    // 100,000 × 2 + 200,000 × 2.5 + 100,000 × 4, and a cent
    expect(await leftCents(edge)).toBe(1000 - 111 - 2)
    await settle(edge.port, await reserved(edge, 'a', SMALL), { prompt_tokens: 600_000, completion_tokens: 10_000, cached_tokens: 100_000 })
    // 600,000 × 3, cached or not, + 10,000 × 20, and a cent
    expect(await leftCents(edge)).toBe(1000 - 111 - 201 - 3)
  })

  test('keeps the prices of the reservation, whatever the bundle says since', async () => {
    const edge = await withHints(budget({ prices: 'list' }))
    const token = await reserved(edge, 'a', SMALL)
    await edge.publish(budget({ prices: 'list' }, 2, { list: { '*': { input: 0.000001, output: 0.000001 } } }))
    await settle(edge.port, token, { prompt_tokens: 500_000 })
    expect(await leftCents(edge)).toBe(1000 - 100)
  })

  test('may be settled by cost as well, and is given back without either', async () => {
    const edge = await withHints(budget({ prices: 'list' }))
    await settleWith(edge.port, { reservation: await reserved(edge, 'a', SMALL), cost: 1.25 })
    expect(await leftCents(edge)).toBe(1000 - 125)
    await settle(edge.port, await reserved(edge, 'a', SMALL))
    expect(await leftCents(edge)).toBe(1000 - 125)
  })
})

test('a budget by given cost is settled by cost, and keeps what it took where only tokens are known', async () => {
  const edge = await withHints(budget({ cost: { header: 'x-cost', default: 1, max: 5 } }, 1, undefined))
  const estimated: Fields = [...ASKED, ['X-Cost', '2']]
  await settleWith(edge.port, { reservation: await reserved(edge, 'a', estimated), cost: 0.5 })
  expect(await leftCents(edge)).toBe(1000 - 50)
  await settle(edge.port, await reserved(edge, 'a', estimated), { prompt_tokens: 5 })
  expect(await leftCents(edge)).toBe(1000 - 250)
})

test('a settlement that reaches a share to warn of warns, once, and names the caller as a take does', async () => {
  const edge = await withHints(budget({ cost: { header: 'x-cost', default: 1, max: 9 }, warn_at_percent: [50, 90] }, 1, undefined))
  for (let i = 0; i < 2; i++)
    await settleWith(edge.port, { reservation: await reserved(edge, 'a', [...ASKED, ['X-Cost', '0.01']]), cost: 3 })
  const warnings = await untilLogged(edge, 'budget_warning')
  expect(warnings).toMatchObject([{ policy: 'p', rule: 'money', percent: 50 }])
  expect(await edge.metric('edge_budget_warnings_total{policy="p",rule="money",percent="50"}')).toBe(1)
  expect(warnings[0]!['caller']).toMatch(/^[0-9a-f]{16}$/)
})
