import { NOTHING } from '../../costs/nothing.ts'
import type { CompiledRule } from './compiled-rule.ts'

export function compileUnlimited(): CompiledRule {
  return { cost: NOTHING, limits: [] }
}
