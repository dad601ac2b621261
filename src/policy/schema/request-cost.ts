import { z } from 'zod'
import { TOKEN } from '../../text/formats.ts'
import { MAX_AMOUNT } from '../algorithms/rate.ts'

/*
 * Fields shared by the algorithms that count requests: what a request costs, and whether it may overdraw the limit. Each `error` completes
 * the sentence "expected …".
 */

const AMOUNT = `a number above 0 (at least 1e-9) and up to ${MAX_AMOUNT}`
const amount = z.number({ error: AMOUNT }).min(1e-9, { error: AMOUNT }).max(MAX_AMOUNT, { error: AMOUNT })

const HEADER = 'the name of a header field'

export const headerCostConfig = z
  .object(
    {
      header: z
        .string({ error: HEADER })
        .regex(TOKEN, { error: HEADER })
        .max(256, { error: 'at most 256 characters' })
        .meta({ description: 'The field with the cost, such as 2 or 0.5. Whoever sets it decides what a request costs.' }),
      default: amount.default(1).meta({ description: 'The cost if the field is missing or not a positive number.' }),
      max: amount.optional().meta({ description: 'A higher number in the field counts as this one.' }),
    },
    { error: 'an object with header' },
  )
  .refine((cost) => cost.max === undefined || cost.max <= 0 || cost.default <= cost.max, {
    path: ['default'],
    error: 'a number no higher than max',
  })

export const requestCostFields = {
  cost: z
    .union([amount, headerCostConfig], { error: `${AMOUNT}, or an object with header, default and max` })
    .optional()
    .meta({ description: 'What a request takes, 1 by default: a number, or a header field that has it.' }),
  when_over: z.enum(['reject', 'charge'], { error: '"reject" or "charge"' }).default('reject').meta({
    description:
      'reject: a request passes only if enough is left for it. charge: it passes while anything is left and is charged in full; if that leaves a debt, no request passes until the debt is paid.',
  }),
}

/** The parsed values of these fields. */
export interface RequestCostConfig {
  readonly cost?: number | z.output<typeof headerCostConfig> | undefined
  readonly when_over: 'reject' | 'charge'
}
