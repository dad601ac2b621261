import type { ListedOverride, Override, OverrideChange } from '../../overrides/override.ts'
import { fitOverride } from '../../policy/overridden-rule.ts'
import type { Plan } from '../../policy/plan.ts'
import type * as json from '../api/types.ts'

/** Returns an override as operators see it, given the active plan. */
export function overrideJson({ override, isDurable }: ListedOverride, plan: Plan | undefined): json.OverrideJson {
  const { id, subject, change, untilMs, createdMs, actor, reason } = override
  const about = subject === 'all_policies' ? {} : { policy: subject.policy, rule: subject.rule, values: subject.values ?? null }
  return {
    id,
    ...about,
    ...changeJson(change),
    until: new Date(untilMs).toISOString(),
    reason,
    actor,
    created_at: new Date(createdMs).toISOString(),
    durable: isDurable,
    in_force: isInForce(override, plan),
  }
}

function changeJson(change: OverrideChange): Partial<json.OverrideJson> {
  switch (change.kind) {
    case 'multiply':
      return { multiply: change.factor }
    case 'set':
      return { set: change.fields }
    case 'unlimited':
      return { unlimited: true }
    case 'block':
      return { block: true }
    case 'shadow':
      return { shadow_all: true }
  }
}

/** Returns whether the active bundle has the rule and the change fits it. */
function isInForce(override: Override, plan: Plan | undefined): boolean {
  return override.subject === 'all_policies' || (plan !== undefined && typeof fitOverride(plan, override) !== 'string')
}
