import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { ADMIN_TOKEN, askAdmin } from '../admin/admin-client.ts'
import { budgetRule, concurrencyRule, llmRule, policy } from '../bundles/bundles.ts'
import { hostsOf, routedBundle } from '../proxy/routed.ts'
import type { Cli } from '../service/cli.ts'
import { type Metrics, metricsOf } from '../service/metrics.ts'
import { type Environment, scratchDirectory, serving } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { until } from '../until.ts'
import { type FakeLlmProcess, fakeLlmProcess } from './fake-llm-process.ts'
import { type Attempt, type FateOf, type FaultyRelay, relayTo } from './faulty-relay.ts'

/** Per token of the prompt and of the completion, in units of the currency. */
const PRICES = { small: [0.001, 0.002], large: [0.008, 0.016], '*': [0.002, 0.004] } as const
const TOKENS = 1_000_000
const BUDGET = 1000
const NAMES = ['a', 'b', 'c'] as const

interface WorldOptions {
  readonly routes: readonly Readonly<Record<string, unknown>>[]
  readonly fateOf: FateOf
  /** By name, whatever a bundle may say of a backend beside its URL. */
  readonly backends?: Readonly<Record<string, object>>
  /** Flags of all `edge fake-llm`. */
  readonly flags?: readonly string[]
  readonly env?: Environment
}

/**
 * Three `edge fake-llm`, each behind a relay, and an `edge serve` before them, all in processes of their own. Every request has a marker, and a budget of
 * tokens and one of money for its marker alone, so that what each request was charged can be asked for.
 */
export async function routedWorld({ routes, fateOf, backends = {}, flags = [], env = {} }: WorldOptions): Promise<RoutedWorld> {
  const fakes: FakeLlmProcess[] = []
  const relays: FaultyRelay[] = []
  const attempts: Attempt[] = []
  for (const name of NAMES) {
    const fake = await fakeLlmProcess(flags)
    fakes.push(fake)
    relays.push(await relayTo({ backend: name, target: fake.port, fateOf, attempts }))
  }
  const urls = Object.fromEntries(relays.map(({ backend, url }) => [backend, { url }]))
  const directory = await scratchDirectory()
  const [bundlePath, logPath] = [join(directory, 'bundle.json'), join(directory, 'decisions.log')]
  const rules = [
    llmRule('tokens', ['header:x-marker'], { tokens_per_day: TOKENS }),
    budgetRule('money', ['header:x-marker'], { budget: BUDGET, prices: 'list' }),
    concurrencyRule('in-flight', [], 10_000),
  ]
  const list = Object.fromEntries(
    Object.entries(PRICES).map(([model, [input, output]]) => [model, { input: input * 1e6, output: output * 1e6 }]),
  )
  const bundle = { ...routedBundle(1, urls, routes, backends, [policy('llm', { rules })]), prices: { list } }
  await writeFile(bundlePath, JSON.stringify(bundle))
  const adminPort = await serverPort()
  const edge = await serving({
    EDGE_MODE: 'reverse_proxy',
    EDGE_BACKEND_HOSTS: hostsOf(urls),
    EDGE_CONFIG_FILE: bundlePath,
    EDGE_DECISION_LOG: logPath,
    EDGE_ADMIN_PORT: String(adminPort),
    EDGE_ADMIN_TOKEN: ADMIN_TOKEN,
    EDGE_STORE_SIZE: '4m',
    ...env,
  })
  if (!edge.stdout.includes('listens')) throw new Error(`edge did not start: ${edge.stderr}`)
  return new RoutedWorld({ edge, adminPort, logPath, fakes, relays, attempts })
}

interface WorldParts {
  readonly edge: Cli
  readonly adminPort: number
  readonly logPath: string
  readonly fakes: readonly FakeLlmProcess[]
  readonly relays: readonly FaultyRelay[]
  readonly attempts: readonly Attempt[]
}

export class RoutedWorld {
  readonly edge: Cli
  readonly fakes: readonly FakeLlmProcess[]
  readonly relays: readonly FaultyRelay[]
  readonly #adminPort: number
  readonly #logPath: string
  readonly #attempts: readonly Attempt[]

  constructor({ edge, adminPort, logPath, fakes, relays, attempts }: WorldParts) {
    this.edge = edge
    this.fakes = fakes
    this.relays = relays
    this.#adminPort = adminPort
    this.#logPath = logPath
    this.#attempts = attempts
  }

  get port(): number {
    return this.edge.port
  }

  /** What backends were asked for this marker, in order. */
  attemptsOf(marker: string): Attempt[] {
    return this.#attempts.filter((each) => each.marker === marker)
  }

  metrics(): Promise<Metrics> {
    return metricsOf(this.#adminPort)
  }

  /** What the one request with this marker was charged. */
  async charged(marker: string): Promise<{ readonly tokens: number; readonly money: number }> {
    const [tokens, money] = await Promise.all([this.#spent('tokens', marker), this.#spent('money', marker)])
    return { tokens, money: money / 100 }
  }

  /** How many lines the decision log has for each marker, once there are so many in all. */
  async logLines(least: number): Promise<Map<string, number>> {
    let lines: string[] = []
    await until(async () => {
      lines = (await readFile(this.#logPath, 'utf8')).split('\n').filter(Boolean)
      return lines.length >= least
    })
    const counts = new Map<string, number>()
    for (const line of lines) {
      const marker = (JSON.parse(line) as { headers: Record<string, string> }).headers['x-marker']!
      counts.set(marker, (counts.get(marker) ?? 0) + 1)
    }
    return counts
  }

  /** Waits until nothing is under way. A gauge that stays above 0 is a leak. */
  async untilQuiet(): Promise<void> {
    let open: string[] = []
    await until(async () => {
      const metrics = await this.metrics()
      open = GAUGES.filter((name) => metrics.sum(name) !== 0)
      return open.length === 0
    }).catch((error: unknown) => {
      throw new Error(`still open: ${open.join(', ')}`, { cause: error })
    })
  }

  /** Connections that are kept open have places; when all backends are gone, no place is taken. */
  async expectNoPlaceKept(): Promise<void> {
    for (const relay of this.relays) relay.refuse()
    await until(async () => {
      const metrics = await this.metrics()
      return metrics.sum('edge_backend_connections') === 0 && metrics.sum('edge_route_connections') === 0
    })
  }

  /** The process has lived through everything, and nothing but what backends did is in its log. */
  expectWell(): void {
    expect(this.edge.process.exitCode).toBeNull()
    const bad = this.edge.log.filter(({ level }) => level === 'error' || level === 'fatal')
    expect(bad).toEqual([])
    expect(this.edge.stderr).not.toMatch(/unhandled|uncaught/i)
  }

  async #spent(rule: string, marker: string): Promise<number> {
    const { json } = await askAdmin(this.#adminPort, 'GET', `counters?policy=llm&rule=${rule}&header:x-marker=${marker}`)
    const { level, limit, reserved } = json.counters[0]
    expect(reserved ?? 0).toBe(0)
    return limit - level
  }
}

/** All of these are 0 when no request is under way. */
const GAUGES = [
  'edge_proxy_open_requests',
  'edge_proxy_open_streams',
  'edge_proxy_open_holds',
  'edge_proxy_body_memory_bytes',
  'edge_proxy_waiting_uploads',
  'edge_llm_open_streams',
  'edge_llm_reservations_in_flight',
  'edge_llm_tokens_in_flight',
  'edge_cost_in_flight',
  'edge_backend_queue_requests',
  'edge_route_queue',
]

/** What an answer of this model costs. */
export function priceOf(model: string, promptTokens: number, completionTokens: number): number {
  const [input, output] = PRICES[model as 'small'] ?? PRICES['*']
  return promptTokens * input + completionTokens * output
}
