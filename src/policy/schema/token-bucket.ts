import { z } from 'zod'
import { RATE, rateProblem } from '../algorithms/rate.ts'
import { BURST, PER_SECOND } from '../limit-fields.ts'
import { requestCostFields } from './request-cost.ts'

const error = ({ input }: { readonly input?: unknown }): string | undefined => rateProblem(input)

const rateText = z
  .string({ error })
  .refine((text) => rateProblem(text) === undefined, { error })
  .meta({ pattern: RATE.source })

export const tokenBucketConfig = z
  .object(
    {
      rate: rateText.optional().meta({ description: 'Refill rate: a number per second, minute, hour or day, such as 100/minute.' }),
      tokens_per_second: z
        .number({ error: PER_SECOND.expected })
        .min(PER_SECOND.min, { error: PER_SECOND.tooLow })
        .max(PER_SECOND.max, { error: PER_SECOND.tooHigh })
        .optional()
        .meta({ description: 'Refill rate in tokens per second, instead of rate.' }),
      burst: z
        .number({ error: BURST.expected })
        .min(BURST.min, { error: BURST.tooLow })
        .max(BURST.max, { error: BURST.tooHigh })
        .optional()
        .meta({ description: 'Size of the bucket, which starts full. The default with rate is the number in rate, but at least 1.' }),
      ...requestCostFields,
    },
    { error: 'an object with rate, or with tokens_per_second and burst' },
  )
  .refine(({ rate, tokens_per_second }) => rate === undefined || tokens_per_second === undefined, {
    ...alsoWithOtherErrors('rate'),
    error: 'either rate or tokens_per_second, not both',
  })
  .refine(({ rate, tokens_per_second }) => rate !== undefined || tokens_per_second !== undefined, {
    ...alsoWithOtherErrors('tokens_per_second'),
    error: 'a number of tokens per second, or rate (for 100 requests a minute write rate: 100/minute)',
  })
  .refine(({ rate, burst }) => rate !== undefined || burst !== undefined, { ...alsoWithOtherErrors('burst'), error: BURST.expected })
  .meta({ oneOf: [{ required: ['rate'] }, { required: ['tokens_per_second', 'burst'] }] })

export type TokenBucketConfig = z.output<typeof tokenBucketConfig>

/** Reports the problem even where another field is invalid, so that all problems are named at once. */
function alsoWithOtherErrors(field: string) {
  return { path: [field], when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null && !Array.isArray(value) }
}
