import type { Completion } from '../completion.ts'

/** Usage as a field to spread; nothing when there is to be none. */
export function openAiUsage({ hasUsage, promptTokens, cachedTokens, tokens }: Completion, choices: number): object {
  if (!hasUsage) return {}
  const completionTokens = tokens * choices
  return {
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
    },
  }
}

export function finishReason({ isCut }: Completion): 'length' | 'stop' {
  return isCut ? 'length' : 'stop'
}
