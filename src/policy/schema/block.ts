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
      .meta({ description: 'From then on the rule covers nobody. RFC 3339.', format: 'date-time' }),
    message: z
      .string({ error: 'a text' })
      .min(1, { error: 'a text of at least one character' })
      .max(MAX_MESSAGE_CHARACTERS, { error: `at most ${MAX_MESSAGE_CHARACTERS} characters` })
      .optional()
      .meta({ description: 'What blocked clients of reverse_proxy read.' }),
    cut_streams: flag('Also end the streams and WebSockets under way of those it matches, when the bundle becomes active.').default(false),
  },
  { error: 'an object' },
)

export type BlockConfig = z.output<typeof blockConfig>
