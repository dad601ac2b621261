import { z } from 'zod'
import { tokens } from './parts.ts'
import { requestCostFields } from './request-cost.ts'
import { checkAnchor, windowFields } from './window.ts'

export const fixedWindowConfig = z
  .object(
    {
      limit: tokens('requests').meta({ description: 'Requests in each window.' }),
      ...windowFields,
      ...requestCostFields,
    },
    { error: 'an object with limit and period' },
  )
  .check(checkAnchor)

export type FixedWindowConfig = z.output<typeof fixedWindowConfig>
