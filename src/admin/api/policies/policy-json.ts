import type { PlanPolicy, PlanRule } from '../../../policy/plan.ts'
import type { PolicyActivity, RuleActivity } from './policy-activity.ts'

const NOTHING: RuleActivity = { rejected: 0, would_reject: 0 }

/** A policy as the bundle has it, and what it has decided lately. */
export function policyJson({ id, mode, selector, rules }: PlanPolicy, lately: PolicyActivity): unknown {
  const { allowed, rejected, would_reject } = lately
  return {
    id,
    mode,
    selector,
    last_minute: { allowed, rejected, would_reject },
    rules: rules.map((rule) => ruleJson(rule, lately.rules.get(rule.name) ?? NOTHING)),
  }
}

function ruleJson({ name, source }: PlanRule, { rejected, would_reject }: RuleActivity): unknown {
  const { limit_keys, match, algorithm, algorithm_config } = source
  return { name, limit_keys, ...(match !== undefined && { match }), algorithm, algorithm_config, last_minute: { rejected, would_reject } }
}
