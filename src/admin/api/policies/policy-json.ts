import type { CallerDigest } from '../../../engine/caller-digest.ts'
import type { PlanPolicy, PlanRule } from '../../../policy/plan.ts'
import type { PolicyJson, RuleJson } from '../types.ts'
import { matchSteps } from './match-json.ts'
import type { PolicyActivity, RuleActivity } from './policy-activity.ts'

const NOTHING: RuleActivity = { rejected: 0, would_reject: 0 }

/** A policy as the bundle has it, credentials as digests, and what it has decided lately. */
export function* policySteps(
  { id, mode, selector, rules }: PlanPolicy,
  lately: PolicyActivity,
  callerDigest: CallerDigest,
): Generator<void, PolicyJson> {
  const { allowed, rejected, would_reject } = lately
  const rulesJson: RuleJson[] = []
  for (const rule of rules) rulesJson.push(yield* ruleSteps(rule, lately.rules.get(rule.name) ?? NOTHING, callerDigest))
  return { id, mode, selector, last_minute: { allowed, rejected, would_reject }, rules: rulesJson }
}

function* ruleSteps(
  { name, source }: PlanRule,
  { rejected, would_reject }: RuleActivity,
  callerDigest: CallerDigest,
): Generator<void, RuleJson> {
  const { limit_keys, algorithm, algorithm_config } = source
  const match = yield* matchSteps(source.match, callerDigest)
  return { name, limit_keys, ...(match !== undefined && { match }), algorithm, algorithm_config, last_minute: { rejected, would_reject } }
}
