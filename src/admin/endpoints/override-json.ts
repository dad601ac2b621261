import type { EndedOverride, ListedOverride, Override, OverrideChange } from '../../overrides/override.ts'
import { limitTexts } from '../../policy/limit-text.ts'
import { fitOverride } from '../../policy/overridden-rule.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import type * as json from '../api/types.ts'

/** Returns an override as operators see it. `plan` is the active one. */
export function overrideJson({ override, isDurable }: ListedOverride, plan: Plan | undefined): json.OverrideJson {
  const fitted = plan === undefined ? 'there is no bundle' : fitOverride(plan, override)
  const [before, after] = typeof fitted === 'string' ? [null, null] : [ruleEffect(fitted.rule), ruleEffect(fitted.variant)]
  const isInForce = override.subject === 'all_policies' || after !== null
  return { ...overrideFacts(override), durable: isDurable, in_force: isInForce, before, after }
}

export function endedOverrideJson({ override, endedMs, why, by }: EndedOverride): json.EndedOverrideJson {
  return { ...overrideFacts(override), ended: { at: timeText(endedMs), why, actor: by?.actor ?? null, reason: by?.reason ?? null } }
}

function overrideFacts({ id, createdMs, actor, reason, edit, ...override }: Override): Omit<json.EndedOverrideJson, 'ended'> {
  return {
    id,
    ...targetJson(override),
    reason,
    actor,
    created_at: timeText(createdMs),
    edited: edit === undefined ? null : { actor: edit.actor, reason: edit.reason, at: timeText(edit.atMs) },
  }
}

/** Returns what an override changes, for whom and until when. */
export function targetJson({ subject, change, untilMs }: Pick<Override, 'subject' | 'change' | 'untilMs'>) {
  const about =
    subject === 'all_policies'
      ? {}
      : {
          policy: subject.policy,
          rule: subject.rule,
          values: subject.values ?? null,
          ...(subject.values === undefined && { all: true as const }),
        }
  return { ...about, ...changeJson(change), until: timeText(untilMs) }
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
      return { block: true, cut_streams: change.cutsStreams ?? false }
    case 'shadow':
      return { shadow_all: true }
  }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}

/** Returns what the active bundle's rule does under an override, or by itself if there is none. Null if the bundle does not have the rule. */
export function effectJson(
  plan: Plan | undefined,
  subject: Override['subject'],
  override: Pick<Override, 'subject' | 'change'> | undefined,
): json.RuleEffectJson | null {
  if (plan === undefined || subject === 'all_policies') return null
  const rule = plan.policiesById.get(subject.policy)?.rules.find(({ name }) => name === subject.rule)
  if (rule === undefined) return null
  const fitted = override && fitOverride(plan, override)
  return ruleEffect(typeof fitted === 'object' ? fitted.variant : rule)
}

function ruleEffect({ block, counters, source }: PlanRule): json.RuleEffectJson {
  if (block !== undefined) return { effect: 'blocks', limits: [] }
  const texts = limitTexts(source)
  const limits = counters.map(({ part, size, unit }, c) => ({ kind: part, limit: size / unit, text: texts[c]! }))
  return { effect: limits.length === 0 ? 'no_limit' : 'limits', limits }
}
