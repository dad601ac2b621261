import { z } from 'zod'
import { HOLD } from '../../costs/hold.ts'
import { SLICES } from '../../limiter/algorithms/in-flight.ts'
import { IN_FLIGHT } from '../../limiter/limit.ts'
import type { CompiledRule } from './compiled-rule.ts'

const MAX_IN_FLIGHT = 1_000_000
const MAX_HOLD_SECONDS = 3600
const IN_FLIGHT_FORM = `requests, a whole number from 1 to ${MAX_IN_FLIGHT}`
const HOLD_FORM = `seconds, a whole number from 1 to ${MAX_HOLD_SECONDS}`

export const concurrencyConfig = z.object(
  {
    max_in_flight: z
      .int({ error: IN_FLIGHT_FORM, abort: true })
      .min(1, { error: IN_FLIGHT_FORM })
      .max(MAX_IN_FLIGHT, { error: IN_FLIGHT_FORM })
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

/** Slices have numbers by their length, so holds of another length are other counters. */
export function compileConcurrency({ max_in_flight, hold_seconds }: z.output<typeof concurrencyConfig>): CompiledRule {
  const limit = { kind: IN_FLIGHT, max: max_in_flight, sliceMs: (hold_seconds * 1000) / SLICES } as const
  return { cost: HOLD, limits: [{ part: 'in_flight', limit, reason: 'concurrency_exceeded', identity: [String(hold_seconds)] }] }
}
