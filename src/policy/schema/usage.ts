import { z } from 'zod'
import { descriptorKey } from './parts.ts'

/** Each label is in every line of the usage log, so there are few. */
const MAX_LABELS = 16

/** What the usage log and budget warnings say about a request beside what its rules charged. */
export const usageSchema = z
  .object(
    {
      labels: z
        .array(descriptorKey, { error: 'a list of descriptor keys' })
        .max(MAX_LABELS, { error: `at most ${MAX_LABELS} keys` })
        .default([])
        .meta({
          description: 'Descriptors whose values are written to EDGE_USAGE_DIR and to budget warnings; credentials are written as digests.',
        }),
    },
    { error: 'an object with labels' },
  )
  .meta({ description: 'What the usage log and budget warnings say about a request. Without it they name no values.' })
