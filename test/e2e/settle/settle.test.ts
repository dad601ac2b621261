import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { ASKED, budgetBundle, errorOf, left, reserve, reserved, settle, settleWith } from '../../support/settle/settling.ts'

describe('a question with X-Edge-Settle: 1', () => {
  test('is answered with a token for what it took', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const { status, headers } = await reserve(edge)
    expect(status).toBe(200)
    expect(headers['x-edge-reservation']).toMatch(/^[\w-]{100,400}$/)
    expect(headers).toMatchObject({ 'ratelimit-remaining': '900', 'content-length': '0' })
    expect(await edge.metric('edge_reservations_total{outcome="issued"}')).toBe(1)
  })

  test.each([
    ['without it', []],
    ['with another value', [['X-Edge-Settle', 'true']]],
    ['with a value in other spelling', [['X-Edge-Settle', '01']]],
    ['with it twice', [ASKED[0]!, ASKED[0]!]],
  ] as const)('and one %s gets no token', async (_, fields) => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const { status, headers } = await reserve(edge, 'a', fields)
    expect([status, headers['x-edge-reservation'], headers['ratelimit-remaining']]).toEqual([200, undefined, '900'])
  })

  test('gets none where nothing was taken that can be settled: a plain bucket, a reject, a rule that did not apply', async () => {
    const plain = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 5)] })) })
    expect((await reserve(plain)).headers['x-edge-reservation']).toBeUndefined()
    const edge = await running({ bundle: budgetBundle(150) })
    expect((await edge.decide({ fields: ASKED })).headers['x-edge-reservation']).toBeUndefined()
    await reserve(edge)
    const rejected = await reserve(edge)
    expect([rejected.status, rejected.headers['x-edge-reservation']]).toEqual([429, undefined])
  })

  test('gets one for what a shadow policy took, and nothing else changes', async () => {
    const edge = await running({ bundle: budgetBundle(1000, 1, 'shadow') })
    const { status, headers } = await reserve(edge)
    expect([status, headers['ratelimit-remaining']]).toEqual([200, undefined])
    expect((await settle(edge.port, headers['x-edge-reservation']!)).status).toBe(204)
  })
})

describe('a settlement', () => {
  test('gives back what was not used, from the minute and the day', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const { status, headers, body } = await settle(edge.port, await reserved(edge), { prompt_tokens: 10, completion_tokens: 20 })
    expect([status, headers['content-length'], body]).toEqual([204, undefined, ''])
    expect(await left(edge)).toBe(970)
    expect(await edge.metric('edge_settlements_total{outcome="settled"}')).toBe(2)
  })

  test('charges what was used beyond the reservation, even into debt', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    await settle(edge.port, await reserved(edge), { prompt_tokens: 500, completion_tokens: 300, cached_tokens: 400 })
    expect(await left(edge)).toBe(200)
    await settle(edge.port, await reserved(edge), { prompt_tokens: 5000 })
    const rejected = await reserve(edge)
    expect([rejected.status, rejected.headers['ratelimit-remaining']]).toEqual([429, '0'])
  })

  test('without usage gives everything back', async () => {
    const edge = await running({ bundle: budgetBundle(100) })
    for (let i = 0; i < 3; i++) expect((await settle(edge.port, await reserved(edge))).status).toBe(204)
    expect(await left(edge)).toBe(100)
  })

  test('by cost alone leaves budgets of tokens as they were reserved', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    expect((await settleWith(edge.port, { reservation: await reserved(edge), cost: 0.0125 })).status).toBe(204)
    expect(await left(edge)).toBe(900)
  })

  test('happens once: the second gets 409 and changes nothing', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const token = await reserved(edge)
    await settle(edge.port, token, { completion_tokens: 90 })
    const again = await settle(edge.port, token)
    expect(errorOf(again)).toMatchObject({ status: 409, code: 'already_settled', type: 'invalid_request_error' })
    expect(again.headers['x-edge-reason']).toBe('already_settled')
    expect(await left(edge)).toBe(910)
  })

  test('corrects only the caller that took, whatever else is reserved', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const [a, b] = [await reserved(edge, 'a'), await reserved(edge, 'b')]
    await settle(edge.port, b, { completion_tokens: 1 })
    expect(await left(edge, 'a')).toBe(900)
    expect(await left(edge, 'b')).toBe(999)
    await settle(edge.port, a, { completion_tokens: 2 })
    expect(await left(edge, 'a')).toBe(998)
  })

  test('corrects every rule that took, shadow policies included', async () => {
    const rule = (name: string) => llmRule(name, ['header:x-key'], { tokens_per_day: 1000, max_completion_tokens: 100 })
    const policies = [
      policy('p', { rules: [rule('a'), rule('b')] }),
      policy('s', { mode: 'shadow', rules: [llmRule('c', [], { tokens_per_day: 100, max_completion_tokens: 100 })] }),
    ]
    const edge = await running({ bundle: bundle(1, ...policies) })
    await settle(edge.port, await reserved(edge), { completion_tokens: 0, prompt_tokens: 0 })
    await reserve(edge)
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="c",reason="tpd_exceeded"}')).toBe(0)
    await reserve(edge)
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="c",reason="tpd_exceeded"}')).toBe(1)
  })

  test('goes to a rule whose limits have changed since, by its limits of today', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const token = await reserved(edge)
    await edge.publish(budgetBundle(500, 2))
    await settle(edge.port, token)
    expect(await left(edge)).toBe(500)
  })

  test('is done for a rule that is gone, and the counter is right when the rule comes back', async () => {
    const edge = await running({ bundle: budgetBundle(1000) })
    const token = await reserved(edge)
    await edge.publish(bundle(2, policy('other', { rules: [bucketRule('r', [], 1)] })))
    expect((await settle(edge.port, token, { completion_tokens: 30 })).status).toBe(204)
    await edge.publish(budgetBundle(1000, 3))
    expect(await left(edge)).toBe(970)
  })

  test('is possible for two hours, and then gets 410', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: budgetBundle(1000), clock })
    const [first, second] = [await reserved(edge, 'a'), await reserved(edge, 'b')]
    clock.advance(2 * 3_600_000)
    expect((await settle(edge.port, first)).status).toBe(204)
    clock.advance(1)
    expect(errorOf(await settle(edge.port, second))).toMatchObject({ status: 410, code: 'expired_reservation' })
  })

  test('goes to the day that was taken from', async () => {
    const clock = new ManualClock()
    clock.advance(11.5 * 3_600_000)
    const edge = await running({ bundle: budgetBundle(1000), clock })
    const token = await reserved(edge)
    clock.advance(3_600_000)
    await reserve(edge)
    await settle(edge.port, token)
    // The burst is full again; what the new day has is 900.
    const { headers } = await reserve(edge)
    expect(headers['ratelimit-remaining']).toBe('800')
  })
})

test('only POST settles', async () => {
  const edge = await running({ bundle: budgetBundle(1000) })
  const { status, headers } = await ask(edge.port, 'GET', '/v1/settle')
  expect([status, headers['allow']]).toEqual([405, 'POST'])
})

test('in reverse_proxy /v1/settle is a path of the backend like any other, and X-Edge-Settle means nothing', async () => {
  const edge = await running({ bundle: budgetBundle(1000), env: { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:1' } })
  const { headers } = await ask(edge.port, 'POST', '/v1/settle', ASKED, '{}')
  expect(headers).toMatchObject({ 'x-edge-reason': 'backend_refused' })
  expect(headers['x-edge-reservation']).toBeUndefined()
})

test('an instance that shares the secret, but no Redis, cannot know whether it was settled: 410', async () => {
  const env = { EDGE_RESERVATION_SECRET: 's'.repeat(32) }
  const [edge, other] = [await running({ bundle: budgetBundle(1000), env }), await running({ env })]
  expect(errorOf(await settle(other.port, await reserved(edge)))).toMatchObject({ status: 410, code: 'expired_reservation' })
})
