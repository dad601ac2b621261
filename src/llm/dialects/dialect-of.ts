import { asObject, type JsonObject } from '../json.ts'
import { AnthropicDialect } from './anthropic.ts'
import { ChatDialect } from './chat.ts'
import type { Dialect, DialectName } from './dialect.ts'
import { GeminiDialect } from './gemini.ts'
import { ResponsesDialect } from './responses.ts'

interface DialectRow {
  /** Recognises the API's events, except those that could belong to any. */
  readonly isOwn: (event: JsonObject) => boolean
  readonly open: () => Dialect
}

/** In the order in which an event is compared. */
const DIALECTS: Readonly<Record<DialectName, DialectRow>> = {
  chat: { isOwn: ({ choices }) => Array.isArray(choices), open: () => new ChatDialect() },
  responses: {
    isOwn: ({ type }) => typeof type === 'string' && /^(?:response|transcript)\./.test(type),
    open: () => new ResponsesDialect(),
  },
  anthropic: { isOwn: ({ type }) => typeof type === 'string' && ANTHROPIC_TYPES.has(type), open: () => new AnthropicDialect() },
  gemini: { isOwn: isGemini, open: () => new GeminiDialect() },
}

const ANTHROPIC_TYPES = new Set([
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
])

/** The first event of a stream may have nothing but usage, or the reason why the prompt was blocked. */
function isGemini(event: JsonObject): boolean {
  return Array.isArray(event['candidates']) || GEMINI_OBJECTS.some((name) => asObject(event[name]) !== undefined)
}

const GEMINI_OBJECTS = ['usageMetadata', 'usage_metadata', 'promptFeedback', 'prompt_feedback']

/** Returns the dialect that an event belongs to, or undefined if it could belong to any. */
export function dialectOf(event: JsonObject): Dialect | undefined {
  for (const { isOwn, open } of Object.values(DIALECTS)) if (isOwn(event)) return open()
  return undefined
}

/** Returns the dialect for a stream of which nothing was understood: that of the path or, as the specification prescribes, of the chat API. */
export function defaultDialect(name: DialectName = 'chat'): Dialect {
  return DIALECTS[name].open()
}
