/** What a rule that counts tokens has beyond its counters. */
export interface LlmSettings {
  /** Upper bound of one completion; undefined: none. */
  readonly maxCompletionTokens: number | undefined
  readonly streaming: StreamingSettings
}

interface StreamingSettings {
  readonly enabled: boolean
  readonly enforceMidStream: boolean
  /** How many tokens come between two looks at the budget. */
  readonly bufferTokens: number
  readonly onLimitExceeded: 'graceful_close' | 'error_chunk'
  readonly includePartialUsage: boolean
}
