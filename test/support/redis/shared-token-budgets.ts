import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, LlmProxy, proxyEnv, type Spent } from '../llm/llm-proxy.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from '../llm/scripted-llm.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { until } from '../until.ts'
import type { RedisServer } from './redis-server.ts'
import { hasRedis, sharing } from './sharing-edge.ts'
import { gateTo, type TcpGate } from './tcp-gate.ts'

export const MINUTE_TOKENS = 4000

export const DAY_TOKENS = 2000

export const MAX_COMPLETION = 500

export const RESERVED = HELLO_TOKENS + MAX_COMPLETION

/** What the backend says that a call has used. */
export const USED = 100

/** A minute brings a token back. */
export const BUDGET = {
  tokens_per_minute: 1,
  burst_tokens: MINUTE_TOKENS,
  tokens_per_day: DAY_TOKENS,
  max_completion_tokens: MAX_COMPLETION,
}

interface TwoProxies {
  readonly one: LlmProxy
  readonly other: LlmProxy
  readonly llm: ScriptedLlm
}

export async function twoProxies(redis: RedisServer): Promise<TwoProxies> {
  const llm = await scriptedLlm()
  const proxies = [await proxyTo(llm, redis.url), await proxyTo(llm, redis.url)] as const
  return { one: proxies[0], other: proxies[1], llm }
}

/** The first of them has a gate between itself and Redis. */
export async function gatedProxies(
  redis: RedisServer,
  env: Readonly<Record<string, string>> = {},
): Promise<TwoProxies & { readonly gate: TcpGate }> {
  const gate = await gateTo(redis.port)
  const llm = await scriptedLlm()
  return { one: await proxyTo(llm, `redis://${gate.address}`, env), other: await proxyTo(llm, redis.url), llm, gate }
}

export async function proxyTo(llm: ScriptedLlm, url: string, env: Readonly<Record<string, string>> = {}): Promise<LlmProxy> {
  const edge = await sharing(url, { bundle: bundleOf(BUDGET), env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(llm), ...env } })
  return new LlmProxy(edge, new ManualClock(), MINUTE_TOKENS, DAY_TOKENS)
}

export function bundleOf(budget: object): object {
  return bundle(1, policy('llm', { rules: [llmRule('budget', [], budget)] }))
}

/** A call that is at the backend: its tokens are reserved. */
export async function asked(proxy: LlmProxy, llm: ScriptedLlm): Promise<{ answer: ReturnType<LlmProxy['post']>; call: ScriptedCall }> {
  const answer = proxy.post(CHAT, { model: 'm', messages: HELLO })
  return { answer, call: await llm.next() }
}

export function finish(call: ScriptedCall, usedTokens: number): void {
  const usage = { prompt_tokens: 0, completion_tokens: usedTokens, total_tokens: usedTokens }
  call.answer(200, { choices: [{ message: { role: 'assistant', content: 'hi' } }], usage })
}

export function spent(tokens: number): Spent {
  return { minute: tokens, day: tokens }
}

export async function loseRedis(edge: Edge, gate: TcpGate): Promise<void> {
  gate.refuse()
  gate.cut()
  await until(async () => !(await hasRedis(edge)))
}
