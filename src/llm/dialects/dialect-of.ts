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

/** The APIs of a stream's events: nearly always one. Each event is read by its own, so that an odd first one does not hide the text of the others. */
export class StreamDialects {
  readonly #opened = new Map<DialectName, Dialect>()
  #name: DialectName | undefined
  /** The type of the last event of that API: most have the same, which needs no look at the others. */
  #type: unknown
  #hasText = false
  /** The API by which the stream is closed: that of the latest text, or of the latest event if there was no text yet. */
  current: Dialect | undefined
  /** Whether the last event is one of an API's own. */
  isOwn = false
  /** Whether it repeats what came before: large ones of Responses, of whose types those are not kept that mean nothing. */
  isRepeat = false

  /** Returns the API that an event belongs to; an event that could belong to any belongs to the one before it. */
  of(event: JsonObject): Dialect | undefined {
    const name = this.#name
    const { type } = event
    this.isOwn = true
    this.isRepeat = false
    if (type !== undefined && type === this.#type) return this.current
    if (name !== undefined && DIALECTS[name].isOwn(event)) {
      this.#type = type
      return this.current
    }
    const own = NAMES.find((each) => each !== name && DIALECTS[each].isOwn(event))
    if (own === undefined) {
      this.isRepeat = name === 'responses' && type === undefined && Object.hasOwn(event, 'type')
      this.isOwn = this.isRepeat
      return this.current
    }
    let dialect = this.#opened.get(own)
    if (dialect === undefined) {
      dialect = DIALECTS[own].open()
      this.#opened.set(own, dialect)
    }
    if (!this.#hasText) this.#use(own, dialect)
    return dialect
  }

  /** To be called when an event of this API had text. */
  noteText(dialect: Dialect | undefined): void {
    this.#hasText = true
    if (dialect === this.current) return
    for (const [name, opened] of this.#opened) if (opened === dialect) this.#use(name, opened)
  }

  #use(name: DialectName, dialect: Dialect): void {
    this.#name = name
    this.#type = undefined
    this.current = dialect
  }
}

const NAMES = Object.keys(DIALECTS) as readonly DialectName[]

/** Returns the dialect for a stream of which nothing was understood: that of the path or, as the specification prescribes, of the chat API. */
export function defaultDialect(name: DialectName = 'chat'): Dialect {
  return DIALECTS[name].open()
}
