import type { CallerDigest } from '../../engine/decide-options.ts'
import type { EndOrder, ListedOverride, OverrideChange, OverrideOrder, RuleSubject, Until } from '../../overrides/override.ts'
import { FACTOR, isFactor } from '../../policy/change-check.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import { overriddenRule } from '../../policy/overridden-rule.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { countedForm } from '../../policy/rule-match.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { findRule, readQuery, readReason, refuseUnknown } from '../api/api-request.ts'
import { type ApiRoute, jsonWithList, SlicedTexts } from '../api/api-route.ts'
import { askedByBody, counterName } from '../api/counter-name.ts'
import type * as json from '../api/types.ts'
import { overrideJson } from './override-json.ts'

export interface OverrideParts {
  readonly plan: () => Plan | undefined
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
  readonly list: () => Promise<Iterable<ListedOverride>>
  readonly create: (order: OverrideOrder) => Promise<ListedOverride>
  readonly end: (order: EndOrder) => Promise<void>
}

/** GET, POST and DELETE overrides: temporary changes by operators. */
export function* overrideEndpoints({ plan, callerDigest, list, create, end }: OverrideParts): Generator<ApiRoute> {
  const texts = new SlicedTexts()
  yield {
    method: 'GET',
    path: 'overrides',
    handle: async ({ query }) => {
      readQuery(query, [])
      return { status: 200, text: await texts.make(listSteps(await list(), plan())) }
    },
  }
  yield {
    method: 'POST',
    path: 'overrides',
    handle: async ({ body, actor }) => {
      const request = readOverrideRequest(body, actor, plan(), callerDigest)
      refuseUnfit(request)
      return { status: 201, json: overrideJson(await create(request.order), plan()) }
    },
  }
  yield {
    method: 'DELETE',
    path: 'overrides/',
    handle: async ({ rest: id, query, actor }) => {
      await end({ id, actor, reason: readReason(readQuery(query, ['reason']).reason) })
      return { status: 204 }
    },
  }
}

/** Works in steps, because there may be many overrides, and each has to be parsed and fitted to its rule. */
function* listSteps(overrides: Iterable<ListedOverride>, plan: Plan | undefined): Generator<void, Buffer> {
  const texts: Buffer[] = []
  for (const listed of overrides) {
    texts.push(Buffer.from(JSON.stringify(overrideJson(listed, plan))))
    yield
  }
  return jsonWithList({}, 'overrides', texts)
}

function refuseUnfit({ rule, order: { change } }: OverrideRequest): void {
  const overridden = rule && overriddenRule(rule, change)
  if (typeof overridden === 'string') throw new ApiError('bad_request', overridden)
}

const CHANGES = ['multiply', 'set', 'unlimited', 'block', 'shadow_all'] as const
const FIELDS = ['policy', 'rule', 'values', ...CHANGES, 'until', 'reason', 'replace'] as const

type Body = Readonly<Record<string, unknown>>

interface OverrideRequest {
  readonly order: OverrideOrder
  /** The rule that it changes; undefined if it changes all policies. */
  readonly rule: PlanRule | undefined
}

/** Reads an operator's request. Whether the change fits the rule is not checked here. `callerDigest` converts credentials to digests. */
function readOverrideRequest(body: Body, actor: string, plan: Plan | undefined, callerDigest: CallerDigest): OverrideRequest {
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
  // A rule without limit keys has the same counter for all callers.
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

/** Returns the values in the form that counters have. Credentials are kept as digests, and may also be given as digests. */
function keptValues(values: Readonly<Record<string, string>>, callerDigest: CallerDigest): RuleSubject['values'] {
  const kept = (key: string, value: string): string =>
    isCredential(key) && !DIGEST.test(value) ? callerDigest([value]) : countedForm(key, value)!
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, kept(key, value)]))
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = /^(\d{1,9})([smhd])$/
const UTC = /(?:Z|[+-]00:00)$/i

/** Reads a time, or a duration from now. The clock of the store determines whether a time is in the past. */
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
