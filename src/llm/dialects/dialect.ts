import type { JsonObject } from '../json.ts'
import type { Tally, TokenCounts } from '../usage.ts'

/** The stream format of one provider's API. */
export interface Dialect {
  /** Adds what an event says to the tally. */
  read(event: JsonObject, tally: Tally): EventMeaning
  /** The event is sent to the client: a closing must take it into account. */
  remember(event: JsonObject): void
  /** The events that end a stream that is cut here. */
  closing(how: Closing, counts: TokenCounts, hasUsage: boolean): string
}

export type EventMeaning = 'content' | 'end' | 'error'
/** As if the model were done; or with an error: its budget is exceeded, or its caller is blocked. */
export type Closing = 'graceful_close' | 'error_chunk' | 'blocked'

/** An error in any dialect: OpenAI's, Anthropic's, and their imitations. */
export function isErrorEvent(event: JsonObject): boolean {
  return event['type'] === 'error' || (event['error'] !== undefined && event['error'] !== null)
}
