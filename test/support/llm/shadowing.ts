import { expect } from 'vitest'
import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { HELLO, proxyEnv } from './llm-proxy.ts'

const ASKED = { stream: true, messages: HELLO }
export const WORDS = Array.from({ length: 50 }, () => 'abcd')
export const BODY = JSON.stringify(ASKED)
export const TIGHT = { max_completion_tokens: 10, streaming: { buffer_tokens: 1 } }

export async function shadowing(backend: { readonly port: number }, config: object = {}, env: Record<string, string> = {}): Promise<Edge> {
  const rules = [llmRule('tried', [], { tokens_per_minute: 100_000, tokens_per_day: 50_000, ...TIGHT, ...config })]
  const trial = policy('trial', { mode: 'shadow', rules })
  return running({ clock: new ManualClock(), bundle: bundle(1, trial), env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...env } })
}

/** What the shadow's counters have paid, by the metrics: nobody is told of it otherwise. */
export async function paid(edge: Edge): Promise<number[]> {
  const names = ['reserved', 'given_back', 'overdrawn', 'used']
  const values = await Promise.all(names.map((name) => edge.metric(`edge_llm_tokens_${name}_total{policy="trial",rule="tried"}`)))
  const [reserved, givenBack, overdrawn, used] = values as [number, number, number, number]
  expect(reserved - givenBack + overdrawn).toBe(used)
  return values
}

export function logged(edge: Edge, name: string): Record<string, unknown>[] {
  return edge.log.filter(({ event }) => event === name)
}
