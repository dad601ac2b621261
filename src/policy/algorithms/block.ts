import { z } from 'zod'
import { NOTHING } from '../../costs/nothing.ts'
import { flag } from '../schema-parts.ts'
import type { CompiledRule } from './compiled-rule.ts'

const TIME = 'a date and time with its offset from UTC, such as "2026-11-16T00:00:00Z"'
const MAX_MESSAGE_CHARACTERS = 1000

export const blockConfig = z.object(
  {
    expires_at: z
      .string({ error: TIME })
      .refine((text) => !Number.isNaN(timeOf(text)), { error: TIME })
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

export function compileBlock({ expires_at, message, cut_streams }: z.output<typeof blockConfig>): CompiledRule {
  const expiresAtMs = expires_at === undefined ? Number.POSITIVE_INFINITY : timeOf(expires_at)
  return { cost: NOTHING, limits: [], block: Object.freeze({ expiresAtMs, message, cutsStreams: cut_streams }) }
}

// RFC 3339 5.6
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** NaN for what is no time: Date alone accepts far more, in the zone of the machine, and makes 31 February the 3rd of March. */
export function timeOf(text: string): number {
  const [, year, month, day] = DATE_TIME.exec(text) ?? []
  if (day === undefined || Number(day) < 1 || Number(day) > new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate())
    return Number.NaN
  return Date.parse(text.toUpperCase().replace(' ', 'T'))
}
