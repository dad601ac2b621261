import { z } from 'zod'

/** Limits nothing: an exemption, for which the policy's `else` does not apply. */
export const unlimitedConfig = z.object({}, { error: 'an empty object' })
