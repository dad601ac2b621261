import { z } from 'zod'
import { NOTHING } from '../../costs/nothing.ts'
import type { CompiledRule } from './compiled-rule.ts'

/** Limits nothing: an exemption, for which the policy's `else` does not apply. */
export const unlimitedConfig = z.object({}, { error: 'an empty object' })

export function compileUnlimited(): CompiledRule {
  return { cost: NOTHING, limits: [] }
}
