import type { CallerDigest } from '../../engine/decide-options.ts'
import {
  type EditOrder,
  type Override,
  type OverrideChange,
  type OverrideOrder,
  overrideKey,
  type RuleSubject,
  type Until,
} from '../../overrides/override.ts'
import { FACTOR, isFactor } from '../../policy/change-check.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import { overriddenRule } from '../../policy/overridden-rule.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { countedForm } from '../../policy/rule-match.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { findRule, readReason, refuseUnknown } from '../api/api-request.ts'
import { askedByBody, counterName } from '../api/counter-name.ts'
import type * as json from '../api/types.ts'

type Body = Readonly<Record<string, unknown>>

const CHANGES = ['multiply', 'set', 'unlimited', 'block', 'shadow_all'] as const
const FIELDS = ['policy', 'rule', 'values', 'all', ...CHANGES, 'cut_streams', 'until', 'reason', 'replace'] as const

/** Reads what an operator wants, and refuses what does not fit the rule. `callerDigest` digests credentials. */
export function readOverrideOrder(body: Body, actor: string, plan: Plan | undefined, callerDigest: CallerDigest): OverrideOrder {
  refuseUnknown<json.OverrideRequestJson>(body, FIELDS)
  const reason = readReason(body['reason'])
  const until = readUntil(body['until'])
  const change = readChange(body, CHANGES)
  const replace = readReplace(body['replace'])
  const common = { change, until, actor, reason, replace }
  if (change.kind === 'shadow') {
    const surplus = ['policy', 'rule', 'values', 'all'].filter((name) => body[name] !== undefined)
    if (surplus.length > 0) throw new ApiError('bad_request', `shadow_all is for all policies: leave ${surplus.join(', ')} out`)
    return { subject: 'all_policies', ...common }
  }
  // An override for all callers is shown with both, so that it can be sent back.
  const target = body['all'] === true && body['values'] === null ? { ...body, values: undefined } : body
  const asked = askedByBody(target)
  const rule = findRule(plan, asked)
  const isForAll = readAll(target, rule)
  const values = isForAll ? undefined : keptValues(counterName(rule, asked).values, callerDigest)
  refuseUnfit(rule, change)
  return { subject: { policy: asked.policy, rule: asked.rule, values }, ...common }
}

const EDITS = ['multiply', 'set', 'unlimited', 'block'] as const
const EDIT_FIELDS = [...EDITS, 'cut_streams', 'until', 'reason'] as const

/** Reads how an operator edits an override, by the same rules. What the request does not name stays as it is. */
export function readOverrideEdit(body: Body, actor: string, override: Override, plan: Plan | undefined): EditOrder {
  refuseUnknown<json.OverrideEditRequest>(body, EDIT_FIELDS)
  const reason = readReason(body['reason'])
  const until = body['until'] === undefined ? undefined : readUntil(body['until'])
  const change = readEditedChange(body, override.change)
  if (until === undefined && change === undefined)
    throw new ApiError('bad_request', `nothing to edit: expected until, cut_streams, or one of ${EDITS.join(', ')}`)
  // Only another end needs no rule: the override may wait for a bundle that has it.
  if (change !== undefined) {
    if (override.subject === 'all_policies')
      throw new ApiError('bad_request', 'shadow_all has nothing to edit but until: end it to enforce again')
    refuseUnfit(findRule(plan, override.subject), change)
  }
  return { id: override.id, key: overrideKey(override), change, until, actor, reason }
}

/** `cut_streams` alone is for a block that there is already, and a block that does not name it keeps what there is. */
function readEditedChange(body: Body, current: OverrideChange): OverrideChange | undefined {
  const cutsStreams = readCutStreams(body['cut_streams'])
  if (EDITS.some((name) => body[name] !== undefined)) {
    const change = readChange(body, EDITS)
    return cutsStreams === undefined && change.kind === 'block' && current.kind === 'block' ? current : change
  }
  if (cutsStreams === undefined) return undefined
  if (current.kind !== 'block') throw new ApiError('bad_request', 'cut_streams: expected only with block, and this override does not block')
  return blockOf(cutsStreams)
}

/**
 * Whether the override is for all callers, which has to be said: otherwise a value that a script failed to fill in would block everybody. A rule without
 * limit keys has no values to name, so its overrides are always for all callers.
 */
function readAll({ all, values }: Body, { limitKeys }: PlanRule): boolean {
  if (all !== undefined && all !== true) throw new ApiError('bad_request', `all: expected true, got ${show(all)}`)
  if (all === true && values !== undefined)
    throw new ApiError('wrong_values', 'all is for all callers, and values name one: expected one of the two')
  if (all === true) return true
  if (limitKeys.length === 0 && (values === undefined || Object.keys(values as object).length === 0))
    throw new ApiError('wrong_values', 'values: this rule has no limit_keys, so the override applies to all callers: send "all": true')
  if (values !== undefined) return false
  throw new ApiError('wrong_values', `values: missing. Name one caller by ${limitKeys.join(', ')}, or send "all": true for all callers`)
}

function refuseUnfit(rule: PlanRule, change: OverrideChange): void {
  const overridden = overriddenRule(rule, change)
  if (typeof overridden === 'string') throw new ApiError('bad_request', overridden)
}

function readChange(body: Body, known: readonly (typeof CHANGES)[number][]): OverrideChange {
  const [name, ...others] = known.filter((one) => body[one] !== undefined)
  if (name === undefined || others.length > 0) {
    const got = name === undefined ? 'there is none' : `got ${[name, ...others].join(', ')}`
    throw new ApiError('bad_request', `expected exactly one of ${known.join(', ')}; ${got}`)
  }
  const value = body[name]
  const cutsStreams = readCutStreams(body['cut_streams'])
  if (cutsStreams !== undefined && name !== 'block')
    throw new ApiError('bad_request', `cut_streams: expected only with block, got it with ${name}`)
  if (name === 'multiply') {
    if (isFactor(value)) return { kind: name, factor: value }
    throw new ApiError('bad_request', `multiply: expected ${FACTOR}, got ${show(value)}`)
  }
  if (name === 'set') return { kind: name, fields: fieldsOf(value) }
  if (value !== true) throw new ApiError('bad_request', `${name}: expected true, got ${show(value)}`)
  if (name === 'block') return blockOf(cutsStreams)
  return { kind: name === 'shadow_all' ? 'shadow' : name }
}

function blockOf(cutsStreams: boolean | undefined): OverrideChange {
  return cutsStreams === true ? { kind: 'block', cutsStreams } : { kind: 'block' }
}

function readCutStreams(value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  throw new ApiError('bad_request', `cut_streams: expected true or false, got ${show(value)}`)
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
    const counted = countedForm(key, value)!
    return isCredential(key) && !DIGEST.test(value) ? callerDigest([counted]) : counted
  }
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, kept(key, value)]))
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = /^(\d{1,9})([smhd])$/
const UTC = /(?:Z|[+-]00:00)$/i

/** A time, or a duration from now. Whether it is in the past is for the clock of the store to say. */
function readUntil(value: unknown): Until {
  const [, count, unit] = typeof value === 'string' ? (DURATION.exec(value) ?? []) : []
  if (unit !== undefined) return { inMs: Number(count) * UNIT_MS[unit]! }
  const atMs = typeof value === 'string' && UTC.test(value) ? dateTimeMs(value) : Number.NaN
  if (!Number.isNaN(atMs)) return { atMs }
  const got = value === undefined ? 'it is missing' : `got ${show(value)}`
  throw new ApiError(
    'bad_until',
    `until: expected a time in UTC such as 2026-01-31T12:00:00Z, or a duration such as 90s, 30m, 2h or 7d; ${got}`,
  )
}
