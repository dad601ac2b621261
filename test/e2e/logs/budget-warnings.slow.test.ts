import { describe, expect, test } from 'vitest'
import { budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { warnings } from '../../support/bundles/warning-bundle.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'
import { servingOn } from '../../support/workers/workers.ts'

const SECRET = 'sk-secret-of-red'

function warningBundle(version: number, mode?: 'shadow', config: object = {}): object {
  const budget = { budget: 10, cost: { header: 'x-cost', default: 1 }, warn_at_percent: [95, 80], period: '1y', ...config }
  return bundle(version, policy('money', { ...(mode && { mode }), rules: [budgetRule('dollars', ['header:x-team'], budget)] }))
}

function spend({ port }: { readonly port: number }, cost: string, team = SECRET): Promise<number> {
  const fields = { 'X-Original-Method': 'GET', 'X-Original-URI': '/', 'X-Team': team, 'X-Cost': cost }
  return fetch(`http://127.0.0.1:${port}/v1/decision`, { method: 'POST', headers: fields }).then(({ status }) => status)
}

function counted({ port }: { readonly port: number }, percent: number): Promise<number> {
  return metric(port, `edge_budget_warnings_total{policy="money",rule="dollars",percent="${percent}"}`)
}

test('all workers tell of it once together', async () => {
  const cli = await servingOn(3, warningBundle(1))
  const costs = Array.from({ length: 100 }, () => '0.1')
  for (let i = 0; i < costs.length; i += 10) await Promise.all(costs.slice(i, i + 10).map((cost) => spend(cli, cost)))
  expect([await counted(cli, 80), await counted(cli, 95)]).toEqual([1, 1])
})

describe('a budget that is nearly spent', () => {
  test('is not told of by a request that is rejected', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: warningBundle(1) })
    expect(await spend(edge, '7')).toBe(200)
    expect(await spend(edge, '5')).toBe(429)
    expect(warnings(edge)).toEqual([])
  })

  test('is logged for each percentage and each caller that reach theirs in the same second', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: warningBundle(1) })
    for (const cost of ['8', '1.5']) for (const team of ['red', 'blue']) await spend(edge, cost, team)
    expect(warnings(edge).map(({ percent, unlogged }) => [percent, unlogged])).toEqual([80, 80, 95, 95].map((percent) => [percent, 0]))
    expect(new Set(warnings(edge).map(({ caller }) => caller)).size).toBe(2)
  })

  test('of very many callers is counted each time, and logged a hundred times a second', async () => {
    const clock = new ManualClock()
    const edge = await running({ clock, bundle: warningBundle(1) })
    for (let i = 0; i < 120; i++) await spend(edge, '9', `team-${i}`)
    clock.advance(1000)
    await spend(edge, '9', 'late')
    expect(warnings(edge).map(({ unlogged }) => unlogged)).toEqual([...Array(100).fill(0), 20])
    expect(await counted(edge, 80)).toBe(121)
  })

  test('in shadow is told of, and no response changes', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: warningBundle(1, 'shadow') })
    expect(await spend(edge, '9')).toBe(200)
    expect(warnings(edge)).toMatchObject([{ mode: 'shadow', percent: 80 }])
  })

  test('keeps to itself what it told before a reload that only changes the budget', async () => {
    const edge = await running({ clock: new ManualClock(), bundle: warningBundle(1) })
    await spend(edge, '8')
    await edge.publish(warningBundle(2, undefined, { budget: 11 }))
    await spend(edge, '1')
    expect(await counted(edge, 80)).toBe(1)
  })
})

test('a restart with a state file tells nothing twice, and names the caller as before', async (t) => {
  const kept = await KeptCounters.of(t, warningBundle(1))
  const first = await kept.run()
  await spend(first, '8')
  await first.stop()
  const second = await kept.run()
  await spend(second, '1')
  expect(await counted(second, 80)).toBe(0)
  await spend(second, '0.5')
  expect(warnings(second)).toMatchObject([{ percent: 95, caller: warnings(first)[0]!['caller'] }])
  expect([await spend(second, '0.500000001'), await spend(second, '0.5')]).toEqual([429, 200])
})
