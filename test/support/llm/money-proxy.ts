import { expect } from 'vitest'
import { budgetRule, bundle, type PolicyText, policy } from '../bundles/bundles.ts'
import type { Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running, thisTest } from '../service/running.ts'
import { CHAT, HELLO, LlmProxy, proxyEnv } from './llm-proxy.ts'

/** In units for a million tokens, so that a prompt token of `big` costs a hundredth of a unit. */
export const PRICES = {
  main: {
    'big*': { input: 10_000, cached_input: 5_000, cache_write: 30_000, output: 20_000 },
    // What recorded responses name: another model than was asked for, and no dearer one.
    'gpt-4o*': { input: 10_000, cached_input: 5_000, cache_write: 30_000, output: 20_000 },
    'small-1': { input: 1_000, output: 2_000 },
    '*': { input: 40_000, output: 80_000 },
  },
}

export interface MoneyProxyOptions {
  readonly budget?: number
  /** Of the one rule, beside its budget. */
  readonly config?: object
  readonly prices?: object
  readonly limitKeys?: readonly string[]
  readonly mode?: 'shadow'
  readonly policies?: readonly PolicyText[]
  readonly env?: Readonly<Record<string, string>>
}

/** A bundle with one budget of money. */
export function moneyBundle(version: number, options: MoneyProxyOptions = {}): object {
  const { budget = 100, config, prices = PRICES, limitKeys = [], mode, policies = [] } = options
  const rules = [budgetRule('dollars', limitKeys, { budget, prices: 'main', ...config })]
  return { ...bundle(version, policy('money', { ...(mode && { mode }), rules }), ...policies), prices }
}

/** The edge before an LLM backend, with one budget of money, on a clock that stands still. */
export async function moneyProxy(
  backend: { readonly port: number },
  options: MoneyProxyOptions = {},
  owner = thisTest,
): Promise<MoneyProxy> {
  const clock = new ManualClock()
  const env = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...options.env }
  const edge = await running({ clock, bundle: moneyBundle(1, options), env }, owner)
  return new MoneyProxy(edge, clock, 0, 0)
}

export class MoneyProxy extends LlmProxy {
  /** Asks for more than any budget holds, and the reject tells what is left. */
  async left(fields: Fields = []): Promise<number> {
    const answer = await this.post(CHAT, { model: 'big', messages: HELLO, max_tokens: 1e12 }, fields)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([429, 'budget_exceeded'])
    return Number(/ and ([\d.]+) is left/.exec(JSON.parse(answer.body).error.message)![1])
  }

  /** The same when nothing is on its way any more. */
  async leftWhenQuiet(fields: Fields = []): Promise<number> {
    await this.untilQuiet()
    return this.left(fields)
  }
}
