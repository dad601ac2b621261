import type { Plan, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { show } from '../../policy/problem.ts'
import { ApiError } from './api-error.ts'

/** The rule that is asked about. */
export function findRule(plan: Plan | undefined, { policy, rule: name }: { readonly policy: string; readonly rule: string }): PlanRule {
  const rule = findPolicy(plan, policy).rules.find((each) => each.name === name)
  if (rule === undefined) throw new ApiError('unknown_rule', `policy ${show(policy)} has no rule ${show(name)}`)
  return rule
}

/** The policy that is asked about. */
export function findPolicy(plan: Plan | undefined, id: string): PlanPolicy {
  if (plan === undefined) throw new ApiError('unknown_policy', `there is no policy ${show(id)}: no bundle is active`)
  const policy = plan.policiesById.get(id)
  if (policy === undefined) throw new ApiError('unknown_policy', `there is no policy ${show(id)} in the active bundle`)
  return policy
}
