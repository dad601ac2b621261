import { llmRule, policy } from '../bundles/bundles.ts'
import { type Handler, HttpBackend } from '../proxy/backend.ts'
import { RawClient } from '../proxy/proxy.ts'
import type { Fields } from '../service/http.ts'
import { until } from '../until.ts'
import { CHAT, HELLO, type LlmProxy, type LlmProxyOptions, llmProxy } from './llm-proxy.ts'

export const KIB = 1024
/** Two reads. The rest of a smaller one would be read for the sake of its connection. */
export const BODY = 128 * KIB
export const PART = 112 * KIB
export const MAX_TOKENS = 5
/** Longer than an upload may be silent while others wait. */
export const SILENCE_MS = 6000
/** Longer than a new upload waits. */
export const WAIT_MS = 10_000

/** A budget for each user, beside the one for everybody. A request without the field has no user, and is its address's. */
export const BY_USER: LlmProxyOptions = {
  policies: [policy('users', { rules: [llmRule('user', ['header:x-user'], { tokens_per_minute: 1_000_000 })] })],
}

type Settings = Readonly<Record<string, string>>

/** The edge before a backend that reads everything and says hello. */
export async function bounded(env: Settings, options: LlmProxyOptions = {}, handler?: Handler): Promise<LlmProxy> {
  const backend = await HttpBackend.start(handler)
  return llmProxy(backend, { ...options, env })
}

/** The fields of a request of this user. */
export function by(user: string): Fields {
  return [['X-User', user]]
}

/** A client that announces so many bytes and sends some of them. */
export function stopping(proxy: LlmProxy, announced: number, sent: number, path = CHAT, fields: Fields = []): RawClient {
  const client = RawClient.connect(proxy.port)
  const lines = [['Host', 'a'], ...fields, ['Content-Length', String(announced)]].map(([name, value]) => `${name}: ${value}\r\n`)
  client.send(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  client.send(bodyOf(announced).slice(0, sent))
  return client
}

/** Of so many bytes, and always of as many tokens. */
export function bodyOf(bytes: number): string {
  const [start, end] = JSON.stringify({ messages: HELLO, max_tokens: MAX_TOKENS, metadata: '|' }).split('|') as [string, string]
  return `${start}${'x'.repeat(bytes - start.length - end.length)}${end}`
}

export function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

export async function untilHeld(proxy: LlmProxy, bytes: number, waiting: number): Promise<void> {
  await until(async () => {
    const { body } = await proxy.edge.get('/metrics')
    return body.includes(`\nedge_proxy_body_memory_bytes ${bytes}\n`) && body.includes(`\nedge_proxy_waiting_uploads ${waiting}\n`)
  })
}

/** Until the edge has read what it will read of all that was sent: what came before a question is read before it. */
export async function untilRead(proxy: LlmProxy, clients: readonly RawClient[]): Promise<void> {
  await until(() => clients.every(({ socket }) => socket.writableLength === 0))
  for (let i = 0; i < 3; i++) await proxy.edge.get('/metrics')
}

export function keepingBodies(kept: Buffer[]): Handler {
  return async (_req, res, seen) => {
    kept.push(await seen.body())
    res.end('hello')
  }
}
