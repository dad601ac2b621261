import { blockRule, bucketRule, budgetRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../bundles/bundles.ts'
import { PRICES } from '../../llm/money-proxy.ts'
import { Edge } from '../../service/edge.ts'
import { ManualClock } from '../../service/manual-clock.ts'
import { until } from '../../until.ts'
import { proxyOptions } from '../proxy.ts'
import { type RecordedRequest, RecordingBackend } from './recording-backend.ts'

// Every rule is keyed by the caller, and every talk has a caller of its own: answers do not depend on who comes first.
const CALLER = 'header:x-api-key'

const BUNDLE = {
  ...bundle(
    1,
    policy('callers', { rules: [bucketRule('caller', [CALLER], 7), bucketRule('team', [CALLER, 'header:x-team'], 3)] }),
    policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('api', [CALLER, 'ip:address'], 4)] }),
    policy('parts', {
      selector: { pathPrefix: '/api' },
      rules: ['query:y', 'cookie:a', 'path:2', 'bearer', 'jwt:sub'].map((key) => bucketRule(key, [key, CALLER], 3)),
    }),
    policy('writes', { selector: { methods: ['POST', 'PUT'] }, rules: [windowRule('writes', [CALLER], { limit: 3, period: '1d' })] }),
    policy('hosts', { selector: { hosts: ['a.example.com'] }, rules: [bucketRule('host', [CALLER], 3)] }),
    policy('blocked', { selector: { pathPrefix: '/blocked' }, rules: [blockRule('all')] }),
    policy('flights', { selector: { pathPrefix: '/a' }, rules: [concurrencyRule('one', [CALLER], 1)] }),
    policy('budget', {
      selector: { pathPrefix: '/v1' },
      rules: [llmRule('budget', [CALLER], { tokens_per_day: 400, max_completion_tokens: 200 })],
    }),
    policy('strict-budget', {
      selector: { pathPrefix: '/v1/chat' },
      rules: [llmRule('strict', [CALLER], { tokens_per_minute: 150, max_completion_tokens: 40, streaming: { buffer_tokens: 1 } })],
    }),
    policy('money', { selector: { pathPrefix: '/v1/messages' }, rules: [budgetRule('money', [CALLER], { budget: 9000, prices: 'main' })] }),
    policy('models', { mode: 'shadow', rules: [bucketRule('model', [CALLER, 'llm:model'], 3)] }),
    policy('next', { mode: 'shadow', rules: [bucketRule('next', [CALLER], 15)] }),
  ),
  prices: PRICES,
}

/** One edge and the backend behind it. */
export interface Side {
  readonly edge: Edge
  readonly clock: ManualClock
  readonly backend: RecordingBackend
  /** What it had counted when it was asked last. */
  counted: ReadonlyMap<string, number>
}

/** The same service twice: requests read by the proxy's own wire, and by `node:http`. Each has a backend and a clock of its own. */
export class DownstreamPair {
  readonly own: Side
  readonly node: Side

  private constructor(own: Side, node: Side) {
    this.own = own
    this.node = node
  }

  static async start(): Promise<DownstreamPair> {
    return new DownstreamPair(await startSide('own'), await startSide('node'))
  }

  get sides(): readonly [Side, Side] {
    return [this.own, this.node]
  }

  async stop(): Promise<void> {
    for (const { edge, backend } of this.sides) {
      await edge.stop()
      await backend.close()
    }
  }
}

/** What a side has done since it was asked before, when nothing is on its way any more. */
export interface Effects {
  readonly requests: readonly RecordedRequest[]
  readonly rubbish: readonly string[]
  /** By how much series of /metrics that count what became of requests have grown. */
  readonly counts: Readonly<Record<string, number>>
}

export async function effectsOf(side: Side): Promise<Effects> {
  const { edge, backend, counted: before } = side
  let lines: readonly string[] = []
  await until(async () => {
    if (backend.open > 0) return false
    lines = (await edge.get('/metrics')).body.split('\n')
    return lines.includes('edge_proxy_open_requests 0') && backend.open === 0
  })
  const counted = new Map(lines.filter((line) => COUNTED.test(line)).map((line) => [seriesOf(line), numberOf(line)]))
  side.counted = counted
  const growth = [...counted].map(([series, value]) => [series, value - (before.get(series) ?? 0)] as const)
  const counts = Object.fromEntries(
    growth.filter(([, value]) => Math.abs(value) > 1e-6).map(([series, value]) => [series, Number(value.toFixed(6))]),
  )
  return { requests: backend.take(), rubbish: backend.rubbish.splice(0), counts }
}

function seriesOf(line: string): string {
  return line.slice(0, line.lastIndexOf(' '))
}

function numberOf(line: string): number {
  return Number(line.slice(line.lastIndexOf(' ')))
}

const COUNTED =
  /^edge_(?:questions|decisions|rejects|refused|descriptor|would|llm_(?!open|estimate)|cost|reservations|budget|backend_(?:responses|failures)|proxy_(?:client_aborts|open_holds|streams_cut))/

async function startSide(wire: 'own' | 'node'): Promise<Side> {
  const backend = await RecordingBackend.listen()
  const clock = new ManualClock()
  const env = { EDGE_PROXY_WIRE: wire, EDGE_STORE_SIZE: '64m', EDGE_LOG_LEVEL: 'info' }
  const edge = await Edge.start(proxyOptions(backend, { clock, bundle: BUNDLE, env }))
  if (edge.logged('bundle_applied').length === 0) throw new Error(JSON.stringify(edge.log))
  return { edge, clock, backend, counted: new Map() }
}
