import type { OverrideJson, OverridePreviewJson, RuleEffectJson } from '../../src/admin/api/types.ts'
import { amountText, perText } from '../amounts.ts'

type Change = Pick<OverrideJson, 'multiply' | 'set' | 'unlimited' | 'block' | 'cut_streams' | 'shadow_all'>

/** Describes the change that an operator asked for in a few words, such as `3 × the limit`. */
export function changeText({ multiply, set, unlimited, block, cut_streams: cutsStreams, shadow_all: isShadowAll }: Change): string {
  if (isShadowAll) return 'Nothing is enforced'
  if (multiply !== undefined) return `${multiply} × the limit`
  if (unlimited) return 'No limit'
  if (block) return cutsStreams ? 'Blocked: 403, open streams are cut' : 'Blocked: 403'
  return Object.entries(set ?? {})
    .map(([field, value]) => SET_WORDS[field]?.(value) ?? `${field} ${value}`)
    .join(', ')
}

const SET_WORDS: Readonly<Record<string, (value: unknown) => string>> = {
  rate: (value) => `rate ${String(value).replace('/', ' per ')}`,
  tokens_per_second: (value) => `rate ${value} per second`,
  tokens_per_minute: (value) => perText(Number(value), 'tokens', 'minute'),
  tokens_per_day: (value) => perText(Number(value), 'tokens', 'day'),
  burst_tokens: (value) => `burst ${amountText(Number(value), 'tokens')}`,
  budget: (value) => `budget ${amountText(Number(value) * 100, 'money')}`,
  max_in_flight: (value) => `${amountText(Number(value), 'requests')} in flight`,
}

/** Describes what an override makes of its rule, such as `60 → 120 requests per minute`, or the change alone where the rule is not known. */
export function effectTexts(override: Change & Pick<OverridePreviewJson, 'before' | 'after'>): readonly string[] {
  const { before, after } = override
  if (before === null || after === null || after.limits.length === 0) return [changeText(override)]
  return after.limits.map(({ text }, i) => transition(before.limits[i]?.text ?? EFFECTS[before.effect], text))
}

/** Describes what the rule does without the override, such as `60 requests per minute`. */
export function limitsText({ effect, limits }: RuleEffectJson): string {
  return limits.length === 0 ? EFFECTS[effect] : limits.map(({ text }) => text).join('; ')
}

const EFFECTS: Readonly<Record<RuleEffectJson['effect'], string>> = { limits: 'unchanged', no_limit: 'no limit', blocks: 'blocked' }

/** Says what they have in common only once: `60 → 120 requests per minute`. */
function transition(before: string, after: string): string {
  const [old, next] = [AMOUNT.exec(before), AMOUNT.exec(after)]
  if (before === after) return `${after}, unchanged`
  return old?.[2] !== undefined && old[2] === next?.[2] ? `${old[1]} → ${after}` : `${before} → ${after}`
}

const AMOUNT = /^([\d.,]+) (.*)$/
