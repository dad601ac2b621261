import OpenAI from 'openai'
import { fakeLlm, HELLO_TOKENS, type LlmProxy, type LlmProxyOptions, llmProxy } from './llm-proxy.ts'

/** The official client, of which nothing is changed but its base URL. */

const MESSAGES = [{ role: 'user' as const, content: 'hello there!' }]
export const CHAT = { model: 'm', messages: MESSAGES }
export const TIGHT: LlmProxyOptions = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } }
export const CHARGED = HELLO_TOKENS + 11

export function client({ port }: { readonly port: number }, maxRetries = 0): OpenAI {
  return new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'sk-test', maxRetries })
}

/** The client through the edge, and the client on its own: their answers must be the same. */
export async function twoWays(tokens: number, options: LlmProxyOptions = {}): Promise<{ proxy: LlmProxy; edge: OpenAI; direct: OpenAI }> {
  const fake = await fakeLlm({ tokens })
  const proxy = await llmProxy(fake, options)
  return { proxy, edge: client(proxy), direct: client(fake) }
}

export async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of stream) items.push(item)
  return items
}
