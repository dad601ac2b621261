import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect } from 'vitest'
import { type ReadUsageLine, readUsageLine } from '../../../src/usage-log/usage-reader.ts'
import { budgetRule, bundle, llmRule, policy } from '../bundles/bundles.ts'
import { LlmProxy, proxyEnv } from '../llm/llm-proxy.ts'
import { PRICES } from '../llm/money-proxy.ts'
import type { Edge, EdgeOptions } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { Metrics } from '../service/metrics.ts'
import { running, scratchDirectory } from '../service/running.ts'
import { until } from '../until.ts'

const LABELS = ['header:x-team', 'llm:model', 'bearer'] as const

/** Rules for tokens and for money, the first of them also in shadow mode. */
export function usageBundle(
  version: number,
  labels: readonly string[] = LABELS,
  config: { readonly websockets?: 'reserve'; readonly [name: string]: unknown } = {},
): object {
  const { websockets } = config
  const tokens = llmRule('tokens', ['header:x-team'], { tokens_per_minute: 1_000_000, tokens_per_day: 5_000_000, ...config })
  const money = budgetRule('money', [], { budget: 9_000, prices: 'main', ...(websockets && { websockets }) })
  const shadow = llmRule('tokens', [], { tokens_per_day: 5_000_000 })
  const policies = [policy('llm', { rules: [tokens, money] }), policy('watched', { mode: 'shadow', rules: [shadow] })]
  return { ...bundle(version, ...policies), prices: PRICES, usage: { labels } }
}

export interface UsageProxyOptions {
  readonly bundle?: object | string
  readonly env?: Readonly<Record<string, string>>
  readonly service?: Partial<EdgeOptions>
  readonly clock?: ManualClock
}

/** The edge before an LLM backend, with a usage log, on a clock that stands still. */
export async function usageProxy(backend: { readonly port: number }, options: UsageProxyOptions = {}): Promise<UsageProxy> {
  const directory = join(await scratchDirectory(), 'usage')
  const clock = options.clock ?? new ManualClock()
  const env = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), EDGE_USAGE_DIR: directory, ...options.env }
  const edge = await running({ clock, bundle: options.bundle ?? usageBundle(1), env, ...options.service })
  return new UsageProxy(edge, clock, directory)
}

export class UsageProxy extends LlmProxy {
  readonly directory: string

  constructor(edge: Edge, clock: ManualClock, directory: string) {
    super(edge, clock, 0, 0)
    this.directory = directory
  }

  /** All lines, once there are so many. */
  async lines(count: number): Promise<ReadUsageLine[]> {
    let lines: ReadUsageLine[] = []
    await until(async () => {
      lines = await usageLines(this.directory)
      return lines.length >= count
    })
    expect(lines).toHaveLength(count)
    return lines
  }

  async metrics(): Promise<Metrics> {
    return new Metrics((await this.edge.get('/metrics')).body)
  }
}

/** The lines of all files that have been written so far, in the order of their names. One that is incomplete is left out. */
export async function usageLines(directory: string): Promise<ReadUsageLine[]> {
  const names = await readdir(directory)
  const whole = names.filter((name) => name.endsWith('.gz') || (name.endsWith('.jsonl') && !names.includes(`${name}.gz`))).sort()
  const texts = await Promise.all(
    whole.map(async (name) => {
      const bytes = await readFile(join(directory, name))
      return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
    }),
  )
  return texts.flatMap((text) => text.split('\n')).flatMap((text) => (text === '' ? [] : (readUsageLine(text) ?? [])))
}

/** Expects that lines and counted losses together say what the metrics say: of each rule to the token and the billionth, and of all settlements. */
export function expectSumsOf(lines: readonly ReadUsageLine[], metrics: Metrics): void {
  const [tokens, nanos] = [new Map<string, number>(), new Map<string, number>()]
  const add = (sums: Map<string, number>, series: string, amount: number): void => void sums.set(series, (sums.get(series) ?? 0) + amount)
  for (const { rules } of lines) {
    for (const { policy: id, rule, tokens: used, cost_nanos: cost } of rules) {
      const labels = `{policy="${id}",rule="${rule}"}`
      if (cost === undefined) add(tokens, labels, used!)
      else add(nanos, labels, cost)
    }
  }
  const seen = { tokens: {} as Record<string, number>, nanos: {} as Record<string, number> }
  const told = { tokens: {} as Record<string, number>, nanos: {} as Record<string, number> }
  for (const [series, value] of metrics.counters()) {
    const [, name, labels] = /^(edge_llm_tokens_used_total|edge_cost_spent_total)(\{.+\})$/.exec(series) ?? []
    if (name === 'edge_llm_tokens_used_total') {
      told.tokens[labels!] = value
      seen.tokens[labels!] = (tokens.get(labels!) ?? 0) + metrics.value(`edge_usage_lost_tokens_total${labels}`)
    } else if (name === 'edge_cost_spent_total') {
      told.nanos[labels!] = Math.round(value * 1e9)
      seen.nanos[labels!] = (nanos.get(labels!) ?? 0) + Math.round(metrics.value(`edge_usage_lost_cost_total${labels}`) * 1e9)
    }
  }
  expect(seen).toEqual(told)
  expect(lines.length + metrics.sum('edge_usage_lines_lost_total')).toBe(metrics.sum('edge_llm_settlements_total'))
  expect(metrics.value('edge_usage_lines_written_total')).toBe(lines.length)
}
