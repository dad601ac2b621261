import type { JsonObject } from '../json.ts'
import { AnthropicDialect } from './anthropic.ts'
import { ChatDialect } from './chat.ts'
import type { Dialect } from './dialect.ts'
import { ResponsesDialect } from './responses.ts'

/** The dialect that an event is told in, or undefined when it could be any. */
export function dialectOf(event: JsonObject): Dialect | undefined {
  if (Array.isArray(event['choices'])) return new ChatDialect()
  const type = event['type']
  if (typeof type !== 'string') return undefined
  if (type.startsWith('response.')) return new ResponsesDialect()
  return ANTHROPIC_TYPES.has(type) ? new AnthropicDialect() : undefined
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
