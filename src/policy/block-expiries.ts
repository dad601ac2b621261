import { dateTimeMs } from './date-time.ts'
import { formatPath, type Problem } from './problem.ts'
import type { Bundle } from './schema.ts'

/** When a block ends. */
export interface BlockExpiry {
  readonly policy: string
  readonly rule: string
  /** In the bundle. */
  readonly path: string
  /** As written. */
  readonly expiresAt: string
  readonly expiresAtMs: number
}

export function blockExpiriesOf({ policies }: Bundle): BlockExpiry[] {
  return policies.flatMap(({ id, spec }, p) =>
    spec.rules.flatMap((rule, r) => {
      const expiresAt = rule.algorithm === 'block' ? rule.algorithm_config.expires_at : undefined
      if (expiresAt === undefined) return []
      const path = formatPath(['policies', p, 'spec', 'rules', r, 'algorithm_config', 'expires_at'])
      return [{ policy: id, rule: rule.name, path, expiresAt, expiresAtMs: dateTimeMs(expiresAt) }]
    }),
  )
}

/** Blocks that have expired by now, as warnings of `edge validate`. */
export function expiredBlocks(expiries: readonly BlockExpiry[], wallMs: number): Problem[] {
  return expiries
    .filter(({ expiresAtMs }) => expiresAtMs <= wallMs)
    .map(({ path, expiresAt }) => ({ path, message: `the block expired at ${expiresAt} and covers nobody: remove it` }))
}
