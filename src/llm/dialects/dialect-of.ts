import type { JsonObject } from '../json.ts'
import { AnthropicDialect } from './anthropic.ts'
import { ChatDialect } from './chat.ts'
import type { Dialect } from './dialect.ts'
import { ResponsesDialect } from './responses.ts'

/** Returns the dialect that an event belongs to, or undefined if it could belong to any. */
export function dialectOf(event: JsonObject): Dialect | undefined {
  if (Array.isArray(event['choices'])) return new ChatDialect()
  const type = event['type']
  if (typeof type !== 'string') return undefined
  if (type.startsWith('response.') || type.startsWith('transcript.')) return new ResponsesDialect()
  return ANTHROPIC_TYPES.has(type) ? new AnthropicDialect() : undefined
}

/** Returns the dialect for a stream whose dialect is unknown: the specification prescribes the ending of the chat API. */
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
