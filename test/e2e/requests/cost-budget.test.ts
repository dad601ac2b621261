import { describe, expect, test } from 'vitest'
import { budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { moneyBundle } from '../../support/llm/money-proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Answer, Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const COST = { header: 'X-Cost', default: 0.5, max: 2 }

function budgeted(config: object, mode?: 'shadow'): Promise<Edge> {
  const rules = [budgetRule('dollars', ['header:x-team'], { budget: 10, cost: COST, ...config })]
  return running({ clock: new ManualClock(), bundle: bundle(1, policy('money', { ...(mode && { mode }), rules })) })
}

function decide(edge: Edge, ...fields: Fields): Promise<Answer> {
  return edge.decide({ fields: [['X-Team', 'red'], ...fields] })
}

function remaining({ headers }: Answer): string | undefined {
  return headers['ratelimit-remaining']
}

describe('a cost in a header field', () => {
  test('is taken in units of the currency, and the answer is in hundredths, rounded down', async () => {
    const edge = await budgeted({})
    const first = await decide(edge, ['X-Cost', '1.25'])
    expect([first.status, first.headers['ratelimit-limit'], remaining(first)]).toEqual([200, '1000', '875'])
    expect(remaining(await decide(edge, ['x-cost', '0.000000001']))).toBe('874')
    expect(remaining(await decide(edge, ['x-cost', '0.009999999']))).toBe('874')
    expect(remaining(await decide(edge, ['x-cost', '0.000000001']))).toBe('873')
  })

  test.each([undefined, '', '0', '-1', '-0.0', 'NaN', 'Infinity', '-Infinity', '1e3', '0x10', '1,5', 'free', '¼'])(
    '%j counts as the default',
    async (text) => {
      const edge = await budgeted({})
      expect(remaining(await decide(edge, ...(text === undefined ? [] : ([['X-Cost', text]] as const))))).toBe('950')
    },
  )

  test('above its maximum counts as that, whatever its size', async () => {
    const edge = await budgeted({})
    expect(remaining(await decide(edge, ['X-Cost', '2.01']))).toBe('800')
    expect(remaining(await decide(edge, ['X-Cost', '9'.repeat(400)]))).toBe('600')
  })

  test('that comes twice is refused, and takes nothing', async () => {
    const edge = await budgeted({})
    const refused = await decide(edge, ['X-Cost', '1'], ['X-Cost', '0.01'])
    expect([refused.status, refused.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
    expect(remaining(await decide(edge, ['X-Cost', '1']))).toBe('900')
  })

  test('that the budget does not cover takes nothing, and smaller ones still pass', async () => {
    const edge = await budgeted({ cost: { header: 'x-cost', default: 1 } })
    expect(remaining(await decide(edge, ['X-Cost', '9.5']))).toBe('50')
    const rejected = await decide(edge, ['X-Cost', '0.500000001'])
    expect([rejected.status, rejected.headers['x-edge-reason']]).toEqual([429, 'budget_exceeded'])
    expect(rejected.headers).toMatchObject({ 'ratelimit-reset': '43200', 'retry-after': '43200', ratelimit: '"money";r=0;t=43200' })
    const never = await decide(edge, ['X-Cost', '11'])
    expect([never.status, never.headers['x-should-retry']]).toEqual([429, 'false'])
    expect(remaining(await decide(edge, ['X-Cost', '0.5']))).toBe('0')
  })

  test('of a policy in shadow changes no answer', async () => {
    const edge = await budgeted({}, 'shadow')
    for (const cost of ['2', '2', '2', '2', '2', '2']) {
      const answer = await decide(edge, ['X-Cost', cost])
      expect([answer.status, answer.headers['ratelimit']]).toEqual([200, undefined])
    }
    expect(await edge.metric('edge_would_reject_total{policy="money",rule="dollars",reason="budget_exceeded"}')).toBe(1)
  })

  test('of a policy in shadow that comes twice leaves the policy out', async () => {
    const edge = await budgeted({ budget: 2 }, 'shadow')
    for (let i = 0; i < 3; i++) expect((await decide(edge, ['X-Cost', '2'], ['X-Cost', '2'])).status).toBe(200)
    await decide(edge, ['X-Cost', '2'])
    const { body } = await edge.get('/metrics')
    expect(body).not.toMatch(/^edge_would_reject_total\{/m)
  })
})

describe('prices, where no body is read', () => {
  test('reserve the default completion of any other model, and that stands', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: moneyBundle(1) })
    // 1000 tokens at 0.08
    expect(remaining(await edge.decide())).toBe('2000')
  })

  test('do not count where there is a cost in a header field', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: moneyBundle(1, { config: { cost: COST } }) })
    expect(remaining(await edge.decide({ fields: [['X-Cost', '1']] }))).toBe('9900')
  })
})

describe('a window', () => {
  test.each([
    ['1h', 'UTC', 1800],
    ['1mo', 'UTC', 16 * 86_400 + 41_400],
    ['1d', 'Asia/Tokyo', 9000],
  ])('of %s in %s ends by its calendar', async (period, timezone, resetS) => {
    const clock = new ManualClock()
    clock.advance(30 * 60_000)
    const rules = [budgetRule('dollars', [], { budget: 10, cost: COST, period, timezone })]
    const edge = await running({ clock, bundle: bundle(1, policy('money', { rules })) })
    expect((await edge.decide()).headers['ratelimit-reset']).toBe(String(resetS))
    clock.advance(resetS * 1000)
    expect(remaining(await edge.decide())).toBe('950')
  })
})
