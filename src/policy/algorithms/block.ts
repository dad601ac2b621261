import { NOTHING } from '../../costs/request-costs.ts'
import { dateTimeMs } from '../../text/formats.ts'
import type { BlockConfig } from '../schema/block.ts'
import type { CompiledRule } from './compiled-rule.ts'

export function compileBlock({ expires_at, message, cut_streams }: BlockConfig): CompiledRule {
  const expiresAtMs = expires_at === undefined ? Number.POSITIVE_INFINITY : dateTimeMs(expires_at)
  return { cost: NOTHING, block: Object.freeze({ expiresAtMs, message, cutsStreams: cut_streams }) }
}
