import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import { type Answer, ask, type Fields } from '../service/http.ts'
import { original } from '../service/wire.ts'

/** Whoever listens: an instance in this process, or one of its own. */
interface Listening {
  readonly port: number
}

export interface Usage {
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
  readonly cached_tokens?: number
  readonly cache_write_tokens?: number
  readonly cache_write_1h_tokens?: number
}

/** A minute budget and a day budget of so many tokens for each key, of which a request reserves 100. Hardly any come back by themselves. */
export function budgetBundle(tokens: number, version = 1, mode = 'enforce'): object {
  const config = { tokens_per_minute: 1, burst_tokens: tokens, tokens_per_day: tokens, max_completion_tokens: 100 }
  return bundle(version, policy('p', { mode, rules: [llmRule('budget', ['header:x-key'], config)] }))
}

export const ASKED: Fields = [['X-Edge-Settle', '1']]

/** Asks about a request of this key, with the intention to settle it. */
export function reserve({ port }: Listening, key = 'a', more: Fields = ASKED): Promise<Answer> {
  return ask(port, 'POST', '/v1/decision', original('/v1/chat/completions', ['X-Key', key], ...more))
}

/** The token of a request that was allowed. */
export async function reserved(edge: Listening, key = 'a', more: Fields = ASKED): Promise<string> {
  const { status, headers } = await reserve(edge, key, more)
  if (status !== 200 || headers['x-edge-reservation'] === undefined) throw new Error(`no reservation: ${status} ${JSON.stringify(headers)}`)
  return headers['x-edge-reservation']
}

/** What is left for this key, asked without taking anything away for good. */
export async function left(edge: Listening, key = 'a'): Promise<number> {
  const { status, headers } = await reserve(edge, key)
  const remaining = Number(headers['ratelimit-remaining'])
  if (status !== 200) return remaining
  const settled = await settle(edge.port, headers['x-edge-reservation']!)
  if (settled.status !== 204) throw new Error(`not settled: ${settled.status} ${settled.body}`)
  return remaining + 100
}

export function settle(port: number, reservation: string, usage?: Usage): Promise<Answer> {
  return settleWith(port, { reservation, usage })
}

export function settleWith(port: number, settlement: unknown): Promise<Answer> {
  return post(port, JSON.stringify(settlement))
}

export function post(port: number, body: string | Buffer, fields: Fields = [['Content-Type', 'application/json']]): Promise<Answer> {
  return ask(port, 'POST', '/v1/settle', fields, body)
}

export function errorOf({ status, body }: Answer): { status: number; code: string; message: string; type: string } {
  return { status, ...(JSON.parse(body) as { error: { code: string; message: string; type: string } }).error }
}
