import type { Edge } from '../service/edge.ts'
import { metric } from '../service/metrics.ts'
import { budgetRule, bundle, policy } from './bundles.ts'

export const SECRET = 'sk-secret-of-red'

export function warningBundle(version: number, mode?: 'shadow', config: object = {}): object {
  const budget = { budget: 10, cost: { header: 'x-cost', default: 1 }, warn_at_percent: [95, 80], period: '1y', ...config }
  return bundle(version, policy('money', { ...(mode && { mode }), rules: [budgetRule('dollars', ['header:x-team'], budget)] }))
}

export function spend({ port }: { readonly port: number }, cost: string, team = SECRET): Promise<number> {
  const fields = { 'X-Original-Method': 'GET', 'X-Original-URI': '/', 'X-Team': team, 'X-Cost': cost }
  return fetch(`http://127.0.0.1:${port}/v1/decision`, { method: 'POST', headers: fields }).then(({ status }) => status)
}

export function warnings(edge: Edge): Record<string, unknown>[] {
  return edge.log.filter(({ event }) => event === 'budget_warning')
}

export function counted({ port }: { readonly port: number }, percent: number): Promise<number> {
  return metric(port, `edge_budget_warnings_total{policy="money",rule="dollars",percent="${percent}"}`)
}
