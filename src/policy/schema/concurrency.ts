import { z } from 'zod'
import { IN_FLIGHT_REQUESTS } from '../limit-fields.ts'

const MAX_HOLD_SECONDS = 3600
const HOLD_FORM = `a whole number of seconds, from 1 to ${MAX_HOLD_SECONDS}`

export const concurrencyConfig = z.object(
  {
    max_in_flight: z
      .int({ error: IN_FLIGHT_REQUESTS.expected, abort: true })
      .min(IN_FLIGHT_REQUESTS.min, { error: IN_FLIGHT_REQUESTS.tooLow })
      .max(IN_FLIGHT_REQUESTS.max, { error: IN_FLIGHT_REQUESTS.tooHigh })
      .meta({ description: 'Requests of one caller that may be in flight at the same time.' }),
    hold_seconds: z
      .int({ error: HOLD_FORM, abort: true })
      .min(1, { error: HOLD_FORM })
      .max(MAX_HOLD_SECONDS, { error: HOLD_FORM })
      .default(60)
      .meta({
        description: 'How long a request counts if nobody reports its end; requests in the reverse proxy are renewed until they end.',
      }),
  },
  { error: 'an object with max_in_flight' },
)

export type ConcurrencyConfig = z.output<typeof concurrencyConfig>
