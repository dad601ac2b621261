import { CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { chatChunk } from './llm-streams.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from './scripted-llm.ts'
import type { StreamClient } from './stream-client.ts'

export const MAX = 500
export const ASKED = { stream: true, messages: HELLO, max_tokens: MAX }
export const RESERVED = HELLO_TOKENS + MAX

interface Streaming {
  readonly backend: ScriptedLlm
  readonly proxy: LlmProxy
  readonly client: StreamClient
  readonly call: ScriptedCall
}

/** A request that has reached the backend, which has not answered yet. */
export async function asking(streaming: object = {}): Promise<Streaming> {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { streaming })
  const client = proxy.open(CHAT, ASKED)
  return { backend, proxy, client, call: await backend.next() }
}

/** One whose answer has begun: two tokens of it have reached the client. */
export async function streaming(settings: object = {}): Promise<Streaming> {
  const parts = await asking(settings)
  parts.call.begin()
  await parts.call.write(chatChunk({ role: 'assistant', content: '' }) + chatChunk({ content: 'abcd' }) + chatChunk({ content: 'efgh' }))
  await parts.client.untilText('efgh')
  return parts
}
