import { isCredential } from '../policy/descriptor-key.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { CallerDigest } from './caller-digest.ts'

/** A caller's values by the rule's limit keys, as operators may see them: credentials are digests. */
export function shownValues(
  { limitKeys }: Pick<PlanRule, 'limitKeys'>,
  values: readonly string[],
  callerDigest: CallerDigest,
): Record<string, string> {
  return Object.fromEntries(limitKeys.map((key, i) => [key, isCredential(key) ? callerDigest([values[i]!]) : values[i]!]))
}
