import type { Override } from '../overrides/override.ts'
import { overriddenRule } from './overridden-rule.ts'
import type { Plan, PlanRule } from './plan.ts'

/** What an override of one rule makes of it. */
export interface FittedOverride {
  readonly rule: PlanRule
  readonly variant: PlanRule
  /** In the order of the rule's limit keys; none: all callers. */
  readonly values: readonly string[]
}

/** A text where the override has no rule in this plan, or does not fit it: it is not in force, and the text says why. */
export function fitOverride(
  plan: Pick<Plan, 'policiesById'>,
  { subject, change }: Pick<Override, 'subject' | 'change'>,
): FittedOverride | string {
  if (subject === 'all_policies') return 'it changes all policies, not one rule'
  const rule = plan.policiesById.get(subject.policy)?.rules.find(({ name }) => name === subject.rule)
  if (rule === undefined) return `the bundle has no policy ${subject.policy} with a rule ${subject.rule}`
  const values = orderedValues(rule, subject.values)
  if (values === undefined) return `the rule's limit_keys are ${rule.limitKeys.join(', ') || 'empty'}`
  const variant = overriddenRule(rule, change)
  return typeof variant === 'string' ? variant : { rule, variant, values }
}

function orderedValues({ limitKeys }: PlanRule, values: Readonly<Record<string, string>> | undefined): readonly string[] | undefined {
  if (values === undefined) return []
  if (Object.keys(values).length !== limitKeys.length || !limitKeys.every((key) => Object.hasOwn(values, key))) return undefined
  return limitKeys.map((key) => values[key]!)
}
