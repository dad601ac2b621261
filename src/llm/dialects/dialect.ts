import type { JsonObject } from '../json.ts'
import type { Tally, TokenCounts } from '../usage.ts'
import { AnthropicDialect } from './anthropic.ts'
import { ChatDialect } from './chat.ts'
import { ResponsesDialect } from './responses.ts'

/** How one provider's API tells a stream. */
export interface Dialect {
  /** Adds what an event brought to the tally. */
  read(event: JsonObject, tally: Tally): EventMeaning
  /** The client gets the event: from now on an ending has to take it into account. */
  remember(event: JsonObject): void
  /** The events that end a stream which is cut here. Usage is left out when undefined. */
  closing(how: Closing, counts: TokenCounts, hasUsage: boolean): string
}

export type EventMeaning = 'content' | 'end' | 'error'
export type Closing = 'graceful_close' | 'error_chunk'

/** The dialect that an event is told in, or undefined when it could be any. */
export function dialectOf(event: JsonObject): Dialect | undefined {
  if (Array.isArray(event['choices'])) return new ChatDialect()
  const type = event['type']
  if (typeof type !== 'string') return undefined
  if (type.startsWith('response.')) return new ResponsesDialect()
  return ANTHROPIC_TYPES.has(type) ? new AnthropicDialect() : undefined
}

/** An error in any dialect: OpenAI's and Anthropic's, and what others made of them. */
export function isErrorEvent(event: JsonObject): boolean {
  return event['type'] === 'error' || (event['error'] !== undefined && event['error'] !== null)
}

/** The ending for a stream of which nothing was understood: the chat API's, which the specification fixes. */
export function defaultDialect(): Dialect {
  return new ChatDialect()
}

const ANTHROPIC_TYPES = new Set([
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
])
