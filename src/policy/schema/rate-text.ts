import { z } from 'zod'
import { RATE, rateProblem } from '../algorithms/rate.ts'

const error = ({ input }: { readonly input?: unknown }): string | undefined => rateProblem(input)

export const rateText = z
  .string({ error })
  .refine((text) => rateProblem(text) === undefined, { error })
  .meta({ pattern: RATE.source })
