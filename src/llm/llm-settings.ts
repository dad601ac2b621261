/** What counts where a provider's count is missing: our estimate, or at least what was reserved. */
export type WithoutUsage = 'estimate' | 'keep'

/** The settings of an LLM rule besides its limits. */
export interface LlmSettings {
  /** Upper bound of one completion; undefined: none. */
  readonly maxCompletionTokens: number | undefined
  readonly withoutUsage: WithoutUsage
  readonly streaming: StreamingSettings
}

interface StreamingSettings {
  readonly enabled: boolean
  readonly enforceMidStream: boolean
  /** How many tokens pass between two checks. */
  readonly bufferTokens: number
  readonly onLimitExceeded: 'graceful_close' | 'error_chunk'
  readonly includePartialUsage: boolean
}
