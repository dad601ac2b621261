import { wholeNumberIn } from '../completion.ts'
import type { Asked } from '../prompt.ts'

// OpenAI gives no more either
const MAX_CHOICES = 128

/** How many completions of one prompt. */
export function choicesOf({ n }: Asked): number {
  return Math.min(MAX_CHOICES, wholeNumberIn(n) || 1)
}
