import { expect, test } from 'vitest'
import { budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { metric } from '../../support/service/metrics.ts'
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
