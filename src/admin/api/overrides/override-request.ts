import type { CallerDigest } from '../../../engine/caller-digest.ts'
import type { OverrideChange, RuleSubject } from '../../../overrides/override.ts'
import type { OverrideOrder } from '../../../overrides/override-order.ts'
import { FACTOR, isFactor } from '../../../policy/change-check.ts'
import { isCredential } from '../../../policy/descriptor-key.ts'
import type { Plan, PlanRule } from '../../../policy/plan.ts'
import { show } from '../../../policy/problem.ts'
import { addressForm } from '../../../policy/rule-match.ts'
import { ApiError } from '../api-error.ts'
import { askedByBody, counterName } from '../counters/counter-name.ts'
import { findRule } from '../find-rule.ts'
import { refuseUnknown } from '../json-body.ts'
import { readReason } from '../reason.ts'
import type * as json from '../types.ts'
import { readUntil } from './read-until.ts'

const CHANGES = ['multiply', 'set', 'unlimited', 'block', 'shadow_all'] as const
const FIELDS = ['policy', 'rule', 'values', ...CHANGES, 'until', 'reason', 'replace'] as const

type Body = Readonly<Record<string, unknown>>

export interface OverrideRequest {
  readonly order: OverrideOrder
  /** The rule that it changes; undefined: all policies. */
  readonly rule: PlanRule | undefined
}

/** What an operator wants, as far as it can be checked without knowing whether the change fits the rule. `callerDigest` digests credentials. */
export function readOverrideRequest(body: Body, actor: string, plan: Plan | undefined, callerDigest: CallerDigest): OverrideRequest {
  refuseUnknown<json.OverrideRequestJson>(body, FIELDS)
  const reason = readReason(body['reason'])
  const until = readUntil(body['until'])
  const change = readChange(body)
  const replace = readReplace(body['replace'])
  const common = { change, until, actor, reason, replace }
  if (change.kind === 'shadow') {
    const surplus = ['policy', 'rule', 'values'].filter((name) => body[name] !== undefined)
    if (surplus.length > 0) throw new ApiError('bad_request', `shadow_all is for all policies: leave ${surplus.join(', ')} out`)
    return { order: { subject: 'all_policies', ...common }, rule: undefined }
  }
  const asked = askedByBody(body)
  const rule = findRule(plan, asked)
  // Without limit keys, one caller is all callers.
  const isForAll = body['values'] === undefined || (rule.limitKeys.length === 0 && asked.values.length === 0)
  const values = isForAll ? undefined : keptValues(counterName(rule, asked).values, callerDigest)
  return { order: { subject: { policy: asked.policy, rule: asked.rule, values }, ...common }, rule }
}

function readChange(body: Body): OverrideChange {
  const [name, ...others] = CHANGES.filter((one) => body[one] !== undefined)
  if (name === undefined || others.length > 0) {
    const got = name === undefined ? 'there is none' : `got ${[name, ...others].join(', ')}`
    throw new ApiError('bad_request', `expected exactly one of ${CHANGES.join(', ')}; ${got}`)
  }
  const value = body[name]
  if (name === 'multiply') {
    if (isFactor(value)) return { kind: name, factor: value }
    throw new ApiError('bad_request', `multiply: expected ${FACTOR}, got ${show(value)}`)
  }
  if (name === 'set') return { kind: name, fields: fieldsOf(value) }
  if (value !== true) throw new ApiError('bad_request', `${name}: expected true, got ${show(value)}`)
  return { kind: name === 'shadow_all' ? 'shadow' : name }
}

function fieldsOf(value: unknown): Body {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Body
  throw new ApiError('bad_request', `set: expected limits of the rule, such as {"burst":20}, got ${show(value)}`)
}

function readReplace(value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value
  throw new ApiError('bad_request', `replace: expected the id of an override, got ${show(value)}`)
}

const DIGEST = /^[0-9a-f]{16}$/

/** As the counters have them. Credentials are kept as digests, and may be given as such. */
function keptValues(values: Readonly<Record<string, string>>, callerDigest: CallerDigest): RuleSubject['values'] {
  const kept = (key: string, value: string): string => {
    if (key === 'ip:address') return addressForm(value)!
    return isCredential(key) && !DIGEST.test(value) ? callerDigest([value]) : value
  }
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, kept(key, value)]))
}
