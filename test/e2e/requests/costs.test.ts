import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, type PolicyText, policy, rateRule, windowRule } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** The same limit of 100, in both algorithms that count requests. */
const ALGORITHMS = [
  ['token_bucket', (config: object) => rateRule('r', [], { rate: '100/minute', ...config })],
  ['fixed_window', (config: object) => windowRule('r', [], { limit: 100, period: '1h', ...config })],
] as const

test.concurrent('a rate of 100 a minute admits 100 at once, and then one every 600 ms', async (t) => {
  const clock = new ManualClock()
  const edge = await start(t, clock, policy('p', { rules: [rateRule('r', [], { rate: '100/minute' })] }))
  expect((await edge.decide()).headers).toMatchObject({ 'ratelimit-limit': '100', 'ratelimit-remaining': '99' })
  expect(new Set(await edge.decideTimes(99))).toEqual(new Set([200]))
  expect((await edge.decide()).headers['retry-after']).toBe('1')
  clock.advance(599)
  expect((await edge.decide()).status).toBe(429)
  clock.advance(1)
  expect(await edge.decideTimes(2)).toEqual([200, 429])
})

describe.concurrent.each(ALGORITHMS)('a cost in %s', (_, rule) => {
  const edgeWith = (t: TestContext, config: object, ...others: PolicyText[]): Promise<Edge> =>
    start(t, new ManualClock(), policy('p', { rules: [rule(config)] }), ...others)

  test('of a fixed number is taken by each request', async (t) => {
    const edge = await edgeWith(t, { cost: 30 })
    const answers = [await edge.decide(), await edge.decide(), await edge.decide(), await edge.decide()]
    expect(answers.map(({ status, headers }) => [status, headers['ratelimit-remaining']])).toEqual([
      [200, '70'],
      [200, '40'],
      [200, '10'],
      [429, '0'],
    ])
  })

  test('that the limit can never cover is rejected for good, and says so', async (t) => {
    const edge = await edgeWith(t, { cost: 101 })
    expect(await edge.decide()).toMatchObject({ status: 429, headers: { 'x-should-retry': 'false', 'ratelimit-limit': '100' } })
  })

  test('is read from its header field, and anything else in there counts as the default', async (t) => {
    const edge = await edgeWith(t, { cost: { header: 'X-Cost', default: 2, max: 20 } })
    let left = 100
    const odd = ['', '0', '-5', '+5', 'NaN', 'Infinity', '1e1', '0x5', '5 5', '5,5', 'five', '.5']
    for (const [value, cost] of [
      ['5', 5],
      ['20', 20],
      ['21', 20],
      ['9'.repeat(300), 20],
      [undefined, 2],
      ...odd.map((text) => [text, 2] as const),
    ] as const) {
      left -= cost
      const fields: Fields = value === undefined ? [] : [['x-COST', value]]
      expect([value, (await edge.decide({ fields })).headers['ratelimit-remaining']]).toEqual([value, String(left)])
    }
  })

  test('in a field that comes twice is never guessed: 400, and nothing is taken', async (t) => {
    const edge = await edgeWith(t, { cost: { header: 'x-cost' } }, policy('other', { rules: [bucketRule('all', [], 9)] }))
    for (const second of ['1', '2', '']) {
      const fields: Fields = [
        ['X-Cost', '1'],
        ['x-cost', second],
      ]
      expect(await edge.decide({ fields })).toMatchObject({ status: 400, headers: { 'x-edge-reason': 'repeated_descriptor' } })
    }
    expect((await edge.decide()).headers['ratelimit']).toMatch(/^"other";r=8;/)
  })

  test('in the proxy is what the client’s field says, and a reject for good says why', async (t) => {
    const backend = await HttpBackend.start(undefined, 0, t)
    const edge = await proxying(
      backend,
      { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [rule({ cost: { header: 'x-cost' } })] })) },
      t,
    )
    expect((await edge.get('/', [['X-Cost', '60']])).headers['ratelimit-remaining']).toBe('40')
    const { status, headers, body } = await edge.get('/', [['X-Cost', '250.5']])
    expect([status, headers['x-should-retry']]).toEqual([429, 'false'])
    expect(JSON.parse(body)).toMatchObject({
      error: { message: expect.stringMatching(/ exceeded: this request costs 250\.5, and the limit is 100\. It can never pass\.$/) },
    })
    expect(
      await edge.get('/', [
        ['X-Cost', '1'],
        ['X-Cost', '1'],
      ]),
    ).toMatchObject({ status: 400 })
    expect(backend.seen).toHaveLength(1)
  })
})

describe.concurrent.each(ALGORITHMS)('when_over: charge in %s', (_, rule) => {
  const COST = { header: 'x-cost', max: 1000 }
  const spending = (edge: Edge, cost: number): ReturnType<Edge['decide']> => edge.decide({ fields: [['X-Cost', String(cost)]] })

  test('lets a request pass while anything is left, whatever it costs, and then none', async (t) => {
    const edge = await start(t, new ManualClock(), policy('p', { rules: [rule({ cost: COST, when_over: 'charge' })] }))
    const answers = [await spending(edge, 99), await spending(edge, 201), await spending(edge, 1), await spending(edge, 500)]
    expect(answers.map(({ status, headers }) => [status, headers['ratelimit-remaining']])).toEqual([
      [200, '1'],
      [200, '0'],
      [429, '0'],
      [429, '0'],
    ])
    expect(answers[3]!.headers).toHaveProperty('retry-after', answers[2]!.headers['retry-after'])
  })
})

function start(t: TestContext, clock: ManualClock, ...policies: PolicyText[]): Promise<Edge> {
  return running({ bundle: bundle(1, ...policies), clock }, t)
}
