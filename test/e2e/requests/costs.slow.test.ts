import { describe, expect, type TestContext, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, type PolicyText, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** The same limit of 100, in both algorithms that count requests. */
const ALGORITHMS = [
  ['token_bucket', (config: object) => rateRule('r', [], { rate: '100/minute', ...config })],
  ['fixed_window', (config: object) => windowRule('r', [], { limit: 100, period: '1h', ...config })],
] as const

test.concurrent('a rate is the counter of the same rule in tokens per second', async (t) => {
  const edge = await start(t, new ManualClock(), policy('p', { rules: [bucketRule('r', [], 60, 1)] }))
  await edge.decideTimes(20)
  expect(await offer(edge, bundle(2, policy('p', { rules: [rateRule('r', [], { rate: '60/minute' })] })))).toMatchObject({
    event: 'bundle_applied',
  })
  expect((await edge.decide()).headers).toMatchObject({ 'ratelimit-limit': '60', 'ratelimit-remaining': '39', 'ratelimit-reset': '21' })
})

describe.concurrent.each(ALGORITHMS)('a cost in %s', (_, rule) => {
  const edgeWith = (t: TestContext, config: object, ...others: PolicyText[]): Promise<Edge> =>
    start(t, new ManualClock(), policy('p', { rules: [rule(config)] }), ...others)

  test('with a fraction is counted exactly, and what is left is rounded down', async (t) => {
    const edge = await edgeWith(t, { cost: { header: 'x-cost' } })
    const fields: Fields = [['X-Cost', '0.25']]
    expect((await edge.decide({ fields })).headers['ratelimit-remaining']).toBe('99')
    for (let i = 1; i < 4; i++) await edge.decide({ fields })
    expect((await edge.decide({ fields: [['X-Cost', '99']] })).headers['ratelimit-remaining']).toBe('0')
    expect((await edge.decide({ fields })).status).toBe(429)
  })
})

describe.concurrent.each(ALGORITHMS)('when_over: charge in %s', (_, rule) => {
  const COST = { header: 'x-cost', max: 1000 }
  const spending = (edge: Edge, cost: number): ReturnType<Edge['decide']> => edge.decide({ fields: [['X-Cost', String(cost)]] })

  test('names the time after which a request passes again', async (t) => {
    const clock = new ManualClock()
    const edge = await start(t, clock, policy('p', { rules: [rule({ cost: COST, when_over: 'charge' })] }))
    for (const cost of [100, 250]) {
      expect((await spending(edge, cost)).status).toBe(200)
      const retryAfterMs = Number((await spending(edge, 1)).headers['retry-after']) * 1000
      clock.advance(retryAfterMs - 1100)
      if (retryAfterMs > 1100) expect((await spending(edge, 1)).status).toBe(429)
      clock.advance(1100)
      expect((await edge.decide({ fields: [['X-Cost', '0.000000001']] })).status).toBe(200)
      clock.advance(3_600_000)
    }
  })

  test('takes nothing where another rule rejects, and others take nothing where it does', async (t) => {
    const rules = [rule({ cost: 45, when_over: 'charge' }), bucketRule('one', ['header:x-caller'], 1, 0.001)]
    const edge = await start(t, new ManualClock(), policy('p', { rules }))
    const remaining: (string | undefined)[] = []
    for (const caller of ['a', 'a', 'b', 'c', 'd']) {
      const { headers } = await edge.decide({ fields: [['X-Caller', caller]] })
      remaining.push(headers['x-edge-reason'] ?? headers['ratelimit-remaining'])
    }
    const reason = (await edge.decide({ fields: [['X-Caller', 'd']] })).headers['x-edge-reason']
    // 100 - 45, a reject by the other rule, - 45, - 45 into debt; the buckets of a, b and c are empty, which is scarcer than what is left
    expect(remaining).toEqual(['0', 'token_bucket_exceeded', '0', '0', reason])
    await offer(edge, bundle(2, policy('p', { rules: [rules[1]!] })))
    expect((await edge.decide({ fields: [['X-Caller', 'd']] })).status).toBe(200)
  })

  test('can be switched off and on again, and the debt stays', async (t) => {
    const published = (version: number, config: object): object => bundle(version, policy('p', { rules: [rule(config)] }))
    const edge = await running({ bundle: published(1, { cost: COST, when_over: 'charge' }), clock: new ManualClock() }, t)
    await spending(edge, 150)
    const before = (await spending(edge, 1)).headers['retry-after']
    await offer(edge, published(2, { cost: COST }))
    expect((await spending(edge, 1)).status).toBe(429)
    await offer(edge, published(3, { cost: COST, when_over: 'charge' }))
    expect((await spending(edge, 1)).headers['retry-after']).toBe(before)
  })

  test('in shadow changes no response', async (t) => {
    const edge = await start(t, new ManualClock(), policy('s', { mode: 'shadow', rules: [rule({ cost: COST, when_over: 'charge' })] }))
    for (const cost of [500, 1, 1]) expect((await spending(edge, cost)).status).toBe(200)
    const text = (await edge.get('/metrics')).body
    expect(text).toMatch(/edge_would_reject_total\{policy="s",rule="r",reason="\w+"\} 2\n/)
  })
})

function start(t: TestContext, clock: ManualClock, ...policies: PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock }, t)
}
