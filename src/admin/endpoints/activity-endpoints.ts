import type { CallerMatch } from '../../policy/caller-match.ts'
import type { Plan } from '../../policy/plan.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { findPolicy, findRule, readCount, readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { TopJson } from '../api/caller-types.ts'
import type { Activity, ActivityRange, BusyPolicy, WorkerActivity } from '../api/instance-types.ts'
import { jsonWithList } from '../api/long-responses.ts'
import { readSince } from './events-endpoints.ts'
import type { PolicyActivity } from './policies-endpoint.ts'

const SHOWN_POLICIES = 20

export interface ActivityParts {
  readonly plan: () => Plan | undefined
  readonly recent: (ask: SamplesAsk) => Promise<InstanceActivity>
  /** Returns what each of these policies has decided in the last minute, in the given order. */
  readonly activity: (policies: readonly string[]) => Promise<readonly PolicyActivity[]>
}

export interface SamplesAsk {
  readonly range: ActivityRange
  /** The time of the last sample of this range that the caller has; undefined asks for all. */
  readonly since: string | undefined
}

/** Recent activity of all threads of the instance. */
export interface InstanceActivity {
  readonly interval_s: number
  /** Samples as JSON, oldest first. */
  readonly samples: readonly string[]
  readonly workers: readonly WorkerActivity[]
  /** Policies with the most decisions in the last minute, in no particular order. */
  readonly busiest: readonly string[]
}

/** GET activity: the last quarter of an hour or a longer range, and the busiest policies, even if they decided nothing. */
export function activityEndpoint({ plan, recent, activity }: ActivityParts): ApiRoute {
  return {
    method: 'GET',
    path: 'activity',
    handle: async ({ query }) => {
      const { interval_s, samples, workers, busiest } = await recent(readSamplesAsk(query))
      const shown = await busiestPolicies(plan(), busiest, activity)
      const members: Omit<Activity, 'samples'> = { interval_s, policies: plan()?.policies.length ?? 0, busiest: shown, workers }
      const texts = samples.map((text) => Buffer.from(text))
      return { status: 200, text: jsonWithList(members, 'samples', texts) }
    },
  }
}

const RANGES: readonly ActivityRange[] = ['15m', '1h', '6h', '24h']

/** Reports both parameters at once if both are wrong. */
function readSamplesAsk(query: URLSearchParams): SamplesAsk {
  const { range: rangeText = '15m', since: sinceText } = readQuery(query, ['range', 'since'])
  const range = RANGES.find((name) => name === rangeText)
  const sinceMs = sinceText === undefined ? undefined : dateTimeMs(sinceText)
  const problems: string[] = []
  if (range === undefined) problems.push(`range: expected 15m, 1h, 6h or 24h, got ${show(rangeText)}`)
  if (Number.isNaN(sinceMs)) problems.push(`since: expected a time such as 2026-01-01T00:00:00Z, got ${show(sinceText)}`)
  if (range === undefined || problems.length > 0) throw new ApiError('bad_request', problems.join('; '))
  // Samples have times in this format.
  return { range, since: sinceMs === undefined ? undefined : new Date(sinceMs).toISOString() }
}

/** Returns policies of the active bundle: the busiest first, then others in bundle order. */
async function busiestPolicies(
  plan: Plan | undefined,
  busiest: readonly string[],
  activity: ActivityParts['activity'],
): Promise<BusyPolicy[]> {
  if (plan === undefined) return []
  const known = busiest.filter((id) => plan.policiesById.has(id))
  const lately = await activity(known)
  const busy = known
    .map((policy, i) => shownPolicy(plan, policy, lately[i]!))
    .sort((a, b) => decisionsOf(b) - decisionsOf(a))
    .slice(0, SHOWN_POLICIES)
  const names = new Set(busiest)
  for (const { id } of plan.policies) {
    if (busy.length >= SHOWN_POLICIES) break
    if (!names.has(id)) busy.push(shownPolicy(plan, id, NOTHING))
  }
  return busy
}

const NOTHING = { allowed: 0, rejected: 0, would_reject: 0 }

type ShownCounts = Pick<PolicyActivity, 'allowed' | 'rejected' | 'would_reject'>

function shownPolicy({ policiesById }: Plan, policy: string, { allowed, rejected, would_reject }: ShownCounts): BusyPolicy {
  return { policy, mode: policiesById.get(policy)!.mode, allowed, rejected, would_reject }
}

function decisionsOf({ allowed, rejected, would_reject }: ShownCounts): number {
  return Math.max(allowed + rejected, would_reject)
}

/** A question to all workers about the callers of all policies, of one policy or of one rule. Each list has at most `limit` entries. */
export interface TopAsk {
  readonly policy: string | undefined
  readonly rule: string | undefined
  /** Undefined: whatever their values. */
  readonly caller?: CallerMatch | undefined
  /** Of those near a limit, only callers of rules that count tokens or money. */
  readonly hasBudget?: boolean | undefined
  /** Since when rejects are counted, within the last hour; undefined: of the last five to ten minutes. */
  readonly sinceMs?: number | undefined
  readonly limit: number
}

export interface TopParts {
  /** Undefined if EDGE_TOP is off. */
  readonly ask: ((ask: TopAsk) => Promise<TopJson>) | undefined
  readonly plan: () => Plan | undefined
  readonly wallMs: () => number
}

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

/** `GET top`: the callers that are rejected most, and those nearest to a limit. */
export function topEndpoint({ ask, plan, wallMs }: TopParts): ApiRoute {
  return {
    method: 'GET',
    path: 'top',
    handle: async ({ query }) => {
      if (ask === undefined) throw new ApiError('top_off', 'EDGE_TOP is off, so callers are not counted: restart with EDGE_TOP=on')
      const asked = readAsk(query, wallMs())
      checkNames(asked, plan())
      return { status: 200, json: await ask(asked) }
    },
  }
}

const KEPT_MS = 3_600_000

function readAsk(query: URLSearchParams, wallMs: number): TopAsk {
  const { policy, rule, budgets, since, limit } = readQuery(query, ['policy', 'rule', 'budgets', 'since', 'limit'])
  if (policy === undefined && rule !== undefined) throw new ApiError('bad_request', 'rule: name its policy too')
  if (budgets !== undefined && budgets !== 'true') throw new ApiError('bad_request', `budgets: expected true, got ${show(budgets)}`)
  const sinceMs = readSince(since, wallMs)
  if (sinceMs !== undefined && wallMs - sinceMs > KEPT_MS)
    throw new ApiError(
      'bad_request',
      `since: expected a time within the last hour, because no more is kept, such as 30m or 1h; got ${show(since)}`,
    )
  return { policy, rule, hasBudget: budgets === 'true', sinceMs, limit: readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT) }
}

function checkNames({ policy, rule }: TopAsk, plan: Plan | undefined): void {
  if (policy === undefined) return
  if (rule === undefined) findPolicy(plan, policy)
  else findRule(plan, { policy, rule })
}
