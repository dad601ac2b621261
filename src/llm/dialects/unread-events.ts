import { TextSize } from '../../text/text-size.ts'
import type { JsonObject } from '../json.ts'
import { SMALL_EVENT_BYTES } from '../sse-framing.ts'
import { isErrorEvent } from './dialect.ts'

/** Events of choices without any text do not get this long in all, unless they contain sound, pictures or text that we do not know. */
const MAX_EMPTY_BYTES = 64 * 1024
/** What a response may have of no known API beside its text or its error: that it began, that it goes on, names and ids. */
export const MAX_BYTES_BESIDE = 1024

/** The size of those events of a stream whose text or count is not known. */
export class UnreadEvents {
  /** Those that belong to no known API. */
  readonly unknown = new TextSize()
  /** Those of choices without text that we know. */
  readonly #textless = new TextSize()
  #errorBytes = 0

  /** Returns where the size of an event counts; undefined if it does not. */
  sizeFor(event: JsonObject, isOfKnownApi: boolean, bytes: number): TextSize | undefined {
    if (isOfKnownApi) return mayHaveText(event) ? this.#textless : undefined
    if (!isErrorEvent(event)) return this.unknown
    this.#errorBytes += bytes
    return this.#errorBytes > SMALL_EVENT_BYTES ? this.unknown : undefined
  }

  /** Whether there is more than an error may have beside it. */
  get isMuch(): boolean {
    return this.unknown.bytes > MAX_BYTES_BESIDE || this.isLongWithoutText
  }

  get isLongWithoutText(): boolean {
    return this.#textless.allBytes > MAX_EMPTY_BYTES
  }

  /** The size that is charged in a stream without a count. */
  get all(): number {
    return this.unknown.bytes + this.#textless.bytes
  }

  /** The same beside a text that is known. */
  get excess(): number {
    return Math.max(0, this.unknown.bytes - MAX_BYTES_BESIDE) + Math.max(0, this.#textless.bytes - MAX_EMPTY_BYTES)
  }
}

/** Whether an event of the chat API, of Gemini's, of a block of Anthropic's or a piece of a response of OpenAI may have text in a member that we do not know. */
function mayHaveText({ type, choices }: JsonObject): boolean {
  return (
    Array.isArray(choices) ||
    typeof type !== 'string' ||
    type.startsWith('content_block') ||
    (type.endsWith('.delta') && !type.endsWith('audio.delta'))
  )
}
