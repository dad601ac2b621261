import OpenAI from 'openai'
import type { LlmProxy, LlmProxyOptions } from './llm-proxy.ts'
import { clientsBothWays } from './sdk-proxy.ts'

const MESSAGES = [{ role: 'user' as const, content: 'hello there!' }]
export const CHAT = { model: 'm', messages: MESSAGES }

export function client({ port }: { readonly port: number }, maxRetries = 0): OpenAI {
  return new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'sk-test', maxRetries })
}

export function twoWays(tokens: number, options: LlmProxyOptions = {}): Promise<{ proxy: LlmProxy; edge: OpenAI; direct: OpenAI }> {
  return clientsBothWays(client, tokens, options)
}
