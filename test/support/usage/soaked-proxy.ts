import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { FakeLlm } from '../../../src/fake-llm/server.ts'
import { budgetRule, llmRule, matching, policy } from '../bundles/bundles.ts'
import { fakeLlm } from '../llm/llm-proxy.ts'
import { hostsOf, routedBundle } from '../proxy/routed.ts'
import { SteppingClock } from '../redis/stepping-clock.ts'
import type { Cli } from '../service/cli.ts'
import { type Environment, type Owner, scratchDirectory, serving, thisTest } from '../service/running.ts'

const KILLABLE = new URL('../workers/killable-workers.mjs', import.meta.url)
/** Nothing that these requests use is a round number of billionths. */
const PRICES = {
  small: { input: 0.123457, output: 1.000003 },
  large: { input: 7.7777, cached_input: 0.31, output: 33.333333 },
  '*': { input: 1.000001, cached_input: 0.099999, output: 3.111117 },
}
const RESERVE = { reserve: { first: 100, step: 100 } }
const RETRY = { on: ['connect', 'timeout', 429, '5xx'], attempts: 2 }
/** What a client with this team may use in a day: streams of it are cut, and requests of it are rejected. */
export const POOR = 'poor'
const POOR_TOKENS = 4_000

export type BackendName = 'a' | 'b' | 'c'

export interface SoakedProxy {
  readonly edge: Cli
  readonly clock: SteppingClock
  /** By the names that lines have for them. */
  readonly fakes: Readonly<Record<BackendName, FakeLlm>>
}

/**
 * A real `edge` with a usage log, several workers of which the first can be killed, and a wall clock that can be set. Its three backends fail in different
 * ways, and a fourth one speaks WebSocket.
 */
export async function soakedProxy(usageDir: string, env: Environment, owner: Owner = thisTest): Promise<SoakedProxy> {
  const slow = { tokens: 2000, tokensPerEvent: 5, tokenMs: 4 }
  const fakes = {
    a: await fakeLlm(
      { ...slow, faults: faultsOf(['reset', 429, 429, 429, 'garbage', 'error-event']), failAfterTokens: 40, cachedTokens: 2, seed: 1 },
      owner,
    ),
    b: await fakeLlm({ ...slow, faults: faultsOf([503, 503, 503]), hasUsage: false, seed: 2 }, owner),
    c: await fakeLlm({ ...slow, isGzip: true, seed: 3 }, owner),
  }
  const urls = {
    ...Object.fromEntries(Object.entries(fakes).map(([name, { port }]) => [name, { url: `http://127.0.0.1:${port}` }])),
    tunnel: { url: `http://127.0.0.1:${await upgradingBackend(owner)}` },
  }
  const directory = await scratchDirectory(owner)
  const bundlePath = join(directory, 'bundle.json')
  await writeFile(bundlePath, JSON.stringify(soakBundle(urls)))
  const clock = new SteppingClock(directory)
  const edge = await serving(
    {
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_HOSTS: hostsOf(urls),
      EDGE_CONFIG_FILE: bundlePath,
      EDGE_USAGE_DIR: usageDir,
      EDGE_WORKERS: '3',
      EDGE_STORE_SIZE: '4m',
      NODE_OPTIONS: `--import ${KILLABLE.href}`,
      ...clock.env,
      ...env,
    },
    [],
    owner,
  )
  owner.onTestFinished(() => clock.clearUpAfter(edge.process.pid!))
  if (!edge.stdout.includes('listens')) throw new Error(`edge did not start: ${edge.stderr}`)
  return { edge, clock, fakes }
}

/** Some of all requests fail in each of these ways; in one that is named several times, so many times as many. */
function faultsOf(failures: readonly ('reset' | 'garbage' | 'error-event' | number)[]) {
  return failures.map((failure) => ({ failure, share: 0.06 }))
}

/** Tokens and money by day, hour and month, for teams and for all, weighted, in shadow mode, with and without growing reservations. */
function soakBundle(urls: Readonly<Record<string, { readonly url: string }>>): object {
  const team = ['header:x-team']
  const policies = [
    policy('teams', {
      rules: [
        llmRule('tokens', team, { tokens_per_minute: 9_000_000, tokens_per_day: 90_000_000, ...RESERVE, websockets: 'reserve' }),
        budgetRule('day', team, { budget: 9_000, prices: 'list', ...RESERVE, websockets: 'reserve' }),
      ],
    }),
    policy('all', {
      rules: [
        budgetRule('hour', [], { budget: 9_000_000, period: '1h', prices: 'list', ...RESERVE, websockets: 'reserve' }),
        budgetRule('month', [], { budget: 9_000_000, period: '1mo', prices: 'list', websockets: 'reserve' }),
      ],
    }),
    policy('poor', {
      rules: [matching({ 'header:x-team': POOR }, llmRule('day', [], { tokens_per_day: POOR_TOKENS, ...RESERVE, websockets: 'reserve' }))],
    }),
    policy('weighed', {
      mode: 'shadow',
      rules: [llmRule('tokens', [], { tokens_per_day: 9_000, count: { cached_input: 0.25, output: 3 } })],
    }),
  ]
  const routes = [
    { match: { 'header:x-kind': 'tunnel' }, backends: [{ name: 'tunnel' }] },
    {
      match: { 'llm:model': 'any' },
      backends: [
        { name: 'a', model: 'small' },
        { name: 'b', model: 'large' },
      ],
      fallback: [{ name: 'c', model: 'medium' }],
      retry: RETRY,
    },
    { backends: [{ name: 'a', weight: 2 }, { name: 'b' }], fallback: [{ name: 'c' }], retry: RETRY },
  ]
  return { ...routedBundle(1, urls, routes, {}, policies), prices: { list: PRICES }, usage: { labels: ['header:x-team', 'llm:model'] } }
}

/** Accepts every upgrade, says one word and closes. Returns its port. */
async function upgradingBackend(owner: Owner): Promise<number> {
  const server = createServer((_, res) => res.writeHead(426).end())
  server.on('upgrade', (_, socket) => {
    socket.on('error', () => {})
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nword')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.onTestFinished(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => void server.close(() => resolve()))
  })
  return (server.address() as AddressInfo).port
}
