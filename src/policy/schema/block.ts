import { z } from 'zod'
import { dateTimeMs } from '../../text/formats.ts'
import { flag } from './parts.ts'

const TIME = 'a date and time with its offset from UTC, such as "2026-11-16T00:00:00Z"'
const MAX_MESSAGE_CHARACTERS = 1000

export const blockConfig = z.object(
  {
    expires_at: z
      .string({ error: TIME })
      .refine((text) => !Number.isNaN(dateTimeMs(text)), { error: TIME })
      .optional()
      .meta({ description: 'From this time on, the rule blocks nobody. RFC 3339.', format: 'date-time' }),
    message: z
      .string({ error: 'a text' })
      .min(1, { error: 'a text of at least one character' })
      .max(MAX_MESSAGE_CHARACTERS, { error: `at most ${MAX_MESSAGE_CHARACTERS} characters` })
      .optional()
      .meta({ description: 'Message for blocked clients in reverse_proxy.' }),
    cut_streams: flag('When the bundle becomes active, also end open streams and WebSockets of the callers that the rule matches.').default(
      false,
    ),
  },
  { error: 'an object' },
)

export type BlockConfig = z.output<typeof blockConfig>
