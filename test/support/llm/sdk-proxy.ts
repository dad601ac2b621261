import type { FakeLlm } from '../../../src/fake-llm/server.ts'
import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running } from '../service/running.ts'
import { fakeLlm, HELLO_TOKENS, type LlmProxy, type LlmProxyOptions, llmProxy, proxyEnv } from './llm-proxy.ts'

/** Where official clients stand, of which nothing is changed but their base URL. */

export const TIGHT: LlmProxyOptions = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } }
export const TIGHT_ERROR: LlmProxyOptions = { ...TIGHT, streaming: { buffer_tokens: 1, on_limit_exceeded: 'error_chunk' } }
/** What a stream that is cut by these costs, and what its client has seen. */
export const CHARGED = HELLO_TOKENS + 11
export const TEN_WORDS = 'the old fox saw the red hen sit far off '

interface TwoWays<Client> {
  readonly proxy: LlmProxy
  readonly fake: FakeLlm
  readonly edge: Client
  readonly direct: Client
}

/** A client through the edge, and one without it: their answers must be the same. */
export async function clientsBothWays<Client>(
  clientOf: (server: { readonly port: number }) => Client,
  tokens: number,
  options: LlmProxyOptions = {},
): Promise<TwoWays<Client>> {
  const fake = await fakeLlm({ tokens })
  const proxy = await llmProxy(fake, options)
  return { proxy, fake, edge: clientOf(proxy), direct: clientOf(fake) }
}

interface Limited {
  readonly edge: Edge
  readonly fake: FakeLlm
  readonly clock: ManualClock
  rejects(): Promise<number>
}

/** A budget of a minute, for what a client does with a 429. */
export async function limitedTo(tokensPerMinute: number): Promise<Limited> {
  const fake = await fakeLlm({ tokens: 5 })
  const clock = new ManualClock()
  const rules = [llmRule('budget', [], { tokens_per_minute: tokensPerMinute })]
  const edge = await running({ clock, bundle: bundle(1, policy('llm', { rules })), env: proxyEnv(fake) })
  const rejects = () => edge.metric('edge_decisions_total{action="reject",reason="tpm_exceeded",policy="llm",route="/"}')
  return { edge, fake, clock, rejects }
}

export async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of stream) items.push(item)
  return items
}

/** What a stream gave before it failed, and how it failed; undefined if it did not. */
export async function untilFailure<Item>(stream: AsyncIterable<Item>): Promise<{ items: Item[]; failure: unknown }> {
  const items: Item[] = []
  try {
    for await (const item of stream) items.push(item)
    return { items, failure: undefined }
  } catch (failure) {
    return { items, failure }
  }
}
