import type { JsonObject } from '../json.ts'
import type { Tally, TokenCounts } from '../usage.ts'

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

/** An error in any dialect: OpenAI's and Anthropic's, and what others made of them. */
export function isErrorEvent(event: JsonObject): boolean {
  return event['type'] === 'error' || (event['error'] !== undefined && event['error'] !== null)
}
