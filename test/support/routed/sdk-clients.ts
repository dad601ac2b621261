import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'

/** One request of a client, whatever library sends it. */
export interface Asked {
  /** Says whose request it is, in X-Marker and in the prompt. */
  readonly marker: string
  readonly sdk: 'openai' | 'anthropic'
  readonly isStream: boolean
  readonly model: string
  readonly prompt: string
  readonly maxTokens: number
  /** The client leaves after so many pieces of the stream. */
  readonly leavesAfter?: number
}

/** What the client has seen of its answer. */
export interface Seen {
  readonly end: 'whole' | 'status' | 'broken' | 'left'
  /** 200 if the answer began; 0 if nothing came. */
  readonly status: number
  readonly model: string
  readonly text: string
  readonly promptTokens: number
  readonly completionTokens: number
}

export type Client = (asked: Asked) => Promise<Seen>

type Growing = { -readonly [Name in keyof Seen]: Seen[Name] }

/** The official libraries for Node. They send each request once: what they would repeat is a request of its own to us. */
export function nodeClient(port: number): Client {
  const openai = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'sk-of-the-client', maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: 'sk-of-the-client', maxRetries: 0 })
  return async (asked) => {
    const seen: Growing = { end: 'whole', status: 0, model: '', text: '', promptTokens: 0, completionTokens: 0 }
    try {
      if (asked.sdk === 'openai') await askOpenAi(openai, asked, seen)
      else await askAnthropic(anthropic, asked, seen)
    } catch (error) {
      const { status } = error as { readonly status?: unknown }
      seen.end = typeof status === 'number' ? 'status' : 'broken'
      if (typeof status === 'number') seen.status = status
    }
    return seen
  }
}

async function askOpenAi(sdk: OpenAI, asked: Asked, seen: Growing): Promise<void> {
  const { marker, model, prompt, maxTokens, isStream, leavesAfter = Number.POSITIVE_INFINITY } = asked
  const body = { model, max_tokens: maxTokens, messages: [{ role: 'user' as const, content: prompt }] }
  const options = { headers: { 'X-Marker': marker } }
  if (!isStream) {
    const answer = await sdk.chat.completions.create(body, options)
    seen.status = 200
    seen.model = answer.model
    seen.text = answer.choices[0]!.message.content!
    seen.promptTokens = answer.usage!.prompt_tokens
    seen.completionTokens = answer.usage!.completion_tokens
    return
  }
  const asking = { ...body, stream: true as const, stream_options: { include_usage: true } }
  const stream = await sdk.chat.completions.create(asking, options)
  seen.status = 200
  let pieces = 0
  for await (const chunk of stream) {
    seen.model = chunk.model
    seen.text += chunk.choices[0]?.delta.content ?? ''
    seen.promptTokens = chunk.usage?.prompt_tokens ?? seen.promptTokens
    seen.completionTokens = chunk.usage?.completion_tokens ?? seen.completionTokens
    if (++pieces >= leavesAfter) return leave(stream, seen)
  }
  // A stream that ends in order has said how long it was.
  if (seen.completionTokens === 0) throw new Error('the stream ended before its end')
}

async function askAnthropic(sdk: Anthropic, asked: Asked, seen: Growing): Promise<void> {
  const { marker, model, prompt, maxTokens, isStream, leavesAfter = Number.POSITIVE_INFINITY } = asked
  const body = { model, max_tokens: maxTokens, messages: [{ role: 'user' as const, content: prompt }] }
  const options = { headers: { 'X-Marker': marker } }
  if (!isStream) {
    const answer = await sdk.messages.create(body, options)
    const block = answer.content[0]!
    seen.status = 200
    seen.model = answer.model
    seen.text = block.type === 'text' ? block.text : ''
    seen.promptTokens = answer.usage.input_tokens
    seen.completionTokens = answer.usage.output_tokens
    return
  }
  const stream = await sdk.messages.create({ ...body, stream: true }, options)
  seen.status = 200
  let pieces = 0
  let hasEnded = false
  for await (const event of stream) {
    if (event.type === 'message_start') {
      seen.model = event.message.model
      seen.promptTokens = event.message.usage.input_tokens
    } else if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') seen.text += event.delta.text
    else if (event.type === 'message_delta') seen.completionTokens = event.usage.output_tokens
    else if (event.type === 'message_stop') hasEnded = true
    if (++pieces >= leavesAfter) return leave(stream, seen)
  }
  if (!hasEnded) throw new Error('the stream ended before its end')
}

function leave(stream: { readonly controller: AbortController }, seen: Growing): void {
  seen.end = 'left'
  stream.controller.abort()
}
