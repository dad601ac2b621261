import { z } from 'zod'
import { KEY_FORMS, KEY_PATTERN, parseDescriptorKey } from '../descriptor-key.ts'
import { wholeNumber } from '../limit-fields.ts'

/*
 * Pieces that several schemas of a bundle share. Each `error` completes the sentence "expected …".
 */

const LABEL = 'a string of 1 to 256 printable ASCII characters'

export const label = z.string({ error: LABEL }).regex(/^[\x20-\x7e]{1,256}$/, { error: LABEL })

export function tokens(what: string) {
  const { min, max, expected: error } = wholeNumber(what)
  return z.int({ error }).min(min, { error }).max(max, { error })
}

export const flag = (description: string) => z.boolean({ error: 'true or false' }).meta({ description })

export const descriptorKey = z
  .string({ error: KEY_FORMS })
  .max(256, { error: 'at most 256 characters' })
  .refine((key) => parseDescriptorKey(key) !== undefined, { error: KEY_FORMS })
  .meta({ pattern: KEY_PATTERN })

/** A field of token budgets and of money budgets. */
export const withoutUsage = z.enum(['estimate', 'keep'], { error: '"estimate" or "keep"' }).default('estimate').meta({
  description:
    "How to charge a stream that ends without the provider's count, or a response whose client does not wait for it: an estimate, or at least the reservation.",
})

const UNSEEN = 'a whole number of tokens, from 0 to 1000000000'

/** A field of token budgets and of money budgets. */
export const unseenPromptTokens = z.int({ error: UNSEEN }).min(0, { error: UNSEEN }).max(1_000_000_000, { error: UNSEEN }).optional().meta({
  description:
    'Prompt tokens that a request reserves besides, if it refers to a prompt that lies elsewhere; default 20000, at most a quarter of the budget; 0 in a budget by the minute.',
})

/** A field of token budgets and of money budgets. */
export const websockets = z.enum(['refuse', 'reserve'], { error: '"refuse" or "reserve"' }).optional().meta({
  description:
    'What becomes of WebSockets, in which nothing is counted: refused with 426, which is the default, or let through for what a request reserves.',
})

export const askUsage = flag(
  "Ask for the provider's count of chat and completions streams if the client does not; the client does not see the event with the count.",
).default(false)

const PERCENT = 'a whole number from 1 to 100'
const MAX_WARNINGS = 10

/** A field of token budgets and of money budgets. */
export const warnAtPercent = z
  .array(z.int({ error: PERCENT }).min(1, { error: PERCENT }).max(100, { error: PERCENT }), { error: 'a list of percentages' })
  .min(1, { error: 'at least one percentage (leave `warn_at_percent` out for none)' })
  .max(MAX_WARNINGS, { error: `at most ${MAX_WARNINGS} percentages` })

/** The rule limits nothing: it is an exemption, and the policy's `else` does not apply to the requests that it matches. */
export const unlimitedConfig = z.object({}, { error: 'an empty object' })
