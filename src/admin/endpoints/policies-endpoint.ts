import type { CallerDigest } from '../../engine/decide-options.ts'
import { isCredential, parseDescriptorKey } from '../../policy/descriptor-key.ts'
import { isPrefixPattern } from '../../policy/patterns.ts'
import type { Plan, PlanPolicy, PlanRule } from '../../policy/plan.ts'
import { listOf } from '../../policy/rule-match.ts'
import type { Rule } from '../../policy/schema/bundle.ts'
import { ApiError } from '../api/api-error.ts'
import { findPolicy, readCount, readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import { jsonWithList, LongResponses } from '../api/long-responses.ts'
import type { PolicyJson, PolicyPage, RuleJson } from '../api/types.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
const MAX_SEARCH_CHARACTERS = 256
/** A page ends early once its policies exceed this size. */
const MAX_BYTES = 1024 * 1024

export interface PoliciesParts {
  readonly plan: () => Plan | undefined
  /** Returns what each of these policies has decided in the last minute, in the given order. */
  readonly activity: (policies: readonly string[]) => Promise<readonly PolicyActivity[]>
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
}

/** GET policies: the active plan in bundle order, a page at a time; or only the policies that contain a text; or one policy. */
export function policiesEndpoint({ plan, activity, callerDigest }: PoliciesParts): ApiRoute {
  const long = new LongResponses()
  return {
    method: 'GET',
    path: 'policies',
    handle: ({ query, http }) => {
      const { policy, search, after, limit } = readQuery(query, ['policy', 'search', 'after', 'limit'])
      if (policy !== undefined && (search ?? after) !== undefined)
        throw new ApiError('bad_request', 'policy already selects one policy: leave out search and after')
      if (search !== undefined && search.length > MAX_SEARCH_CHARACTERS)
        throw new ApiError('bad_request', `search: expected at most ${MAX_SEARCH_CHARACTERS} characters`)
      const count = readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT)
      const active = plan()
      const searched = policy === undefined ? policiesBehind(active, after) : [findPolicy(active, policy)]
      return long.serve(http, async ({ make }) => {
        // One policy more than the page holds shows whether there is a next page.
        const found = await make(searchSteps(searched, search, count + 1))
        const policies = found.slice(0, count)
        const lately = await activity(policies.map(({ id }) => id))
        const page = { version: active?.version.toString() ?? null, policies, lately, hasMore: found.length > count }
        return { status: 200, text: await make(pageSteps(page, callerDigest)) }
      })
    },
  }
}

function policiesBehind(plan: Plan | undefined, id: string | undefined): readonly PlanPolicy[] {
  if (id === undefined) return plan?.policies ?? []
  const policy = plan?.policiesById.get(id)
  if (policy === undefined)
    throw new ApiError(
      'unknown_policy',
      'after: the active bundle has no such policy; the bundle may have changed, so start again without after',
    )
  return plan!.policies.slice(policy.index + 1)
}

interface Page {
  readonly version: string | null
  readonly policies: readonly PlanPolicy[]
  /** Recent decisions of each of these policies. */
  readonly lately: readonly PolicyActivity[]
  readonly hasMore: boolean
}

function* pageSteps({ version, policies, lately, hasMore }: Page, callerDigest: CallerDigest): Generator<void, Buffer> {
  const texts: Buffer[] = []
  let bytes = 0
  for (const [i, policy] of policies.entries()) {
    if (bytes > MAX_BYTES) break
    const text = Buffer.from(JSON.stringify(yield* policySteps(policy, lately[i]!, callerDigest)))
    texts.push(text)
    bytes += text.length
    yield
  }
  const isLast = !hasMore && texts.length === policies.length
  const members: Omit<PolicyPage, 'policies'> = { bundle_version: version, next: isLast ? null : policies[texts.length - 1]!.id }
  return jsonWithList(members, 'policies', texts)
}

const NOTHING: RuleActivity = { rejected: 0, would_reject: 0 }

/** Builds the JSON of a policy as the bundle defines it, with credentials as digests, and with its recent decisions. */
function* policySteps(
  { id, mode, selector, rules }: PlanPolicy,
  lately: PolicyActivity,
  callerDigest: CallerDigest,
): Generator<void, PolicyJson> {
  const { allowed, rejected, would_reject } = lately
  const rulesJson: RuleJson[] = []
  for (const rule of rules) rulesJson.push(yield* ruleSteps(rule, lately.rules.get(rule.name) ?? NOTHING, callerDigest))
  return { id, mode, selector, last_minute: { allowed, rejected, would_reject }, rules: rulesJson }
}

function* ruleSteps(
  { name, source }: PlanRule,
  { rejected, would_reject }: RuleActivity,
  callerDigest: CallerDigest,
): Generator<void, RuleJson> {
  const { limit_keys, algorithm, wait_seconds, algorithm_config } = source
  const match = yield* matchSteps(source.match, callerDigest)
  return {
    name,
    limit_keys,
    ...(match !== undefined && { match }),
    algorithm,
    ...(wait_seconds !== undefined && { wait_seconds }),
    algorithm_config,
    last_minute: { rejected, would_reject },
  }
}

/** Digests are computed in steps, because a rule may match a hundred thousand tokens. */
const DIGESTS_A_STEP = 200

/**
 * Builds a rule's `match` as operators may see it. A credential becomes the same digest that `explain` and `top` show, and a prefix of a credential
 * becomes the digest of that prefix.
 */
function* matchSteps(match: Rule['match'], callerDigest: CallerDigest): Generator<void, Rule['match']> {
  if (match === undefined || match === 'else') return match
  const shown: Record<string, string | string[]> = {}
  for (const [key, patterns] of Object.entries(match))
    shown[key] = isCredential(parseDescriptorKey(key)!.text) ? yield* digestSteps(listOf(patterns), callerDigest) : patterns
  return shown
}

function* digestSteps(patterns: readonly string[], callerDigest: CallerDigest): Generator<void, string[]> {
  const digests: string[] = []
  for (const pattern of patterns) {
    digests.push(credentialText(pattern, callerDigest))
    if (digests.length % DIGESTS_A_STEP === 0) yield
  }
  return digests
}

/** `*` alone covers every value and reveals nothing about any of them. */
export function credentialText(pattern: string, callerDigest: CallerDigest): string {
  if (pattern === '*') return pattern
  return isPrefixPattern(pattern) ? `${callerDigest([pattern.slice(0, -1)])}*` : callerDigest([pattern])
}

/** After this many texts, other work gets its turn, because a policy can name a hundred thousand hosts. */
const TEXTS_A_STEP = 200

/** Finds the first `count` policies whose id, mode, selector or rules contain the text, in any case. Finds all policies if the text is undefined. */
function* searchSteps(policies: Iterable<PlanPolicy>, text: string | undefined, count: number): Generator<void, PlanPolicy[]> {
  const found: PlanPolicy[] = []
  const wanted = text?.toLowerCase()
  for (const policy of policies) {
    if (found.length === count) break
    if (wanted === undefined || (yield* containsSteps(policy, wanted))) found.push(policy)
    yield
  }
  return found
}

function* containsSteps(policy: PlanPolicy, wanted: string): Generator<void, boolean> {
  let texts = 0
  for (const text of textsOf(policy)) {
    if (text.toLowerCase().includes(wanted)) return true
    if (++texts % TEXTS_A_STEP === 0) yield
  }
  return false
}

function* textsOf({ id, mode, selector, rules }: PlanPolicy): Generator<string> {
  yield id
  yield mode
  const { pathPrefix, pathExact, exceptPaths = [], methods = [], hosts = [], domain, descriptors = {} } = selector
  for (const text of [pathPrefix, pathExact, domain]) if (text !== undefined) yield text
  yield* methods
  yield* hosts
  yield* exceptPaths
  yield* Object.keys(descriptors)
  for (const { name, limitKeys, source } of rules) {
    yield name
    yield source.algorithm
    yield* limitKeys
  }
}

/** Decisions of a policy in the last minute. */
export interface PolicyActivity {
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
  /** Rules by name. Rules that decided nothing are left out. */
  readonly rules: ReadonlyMap<string, RuleActivity>
}

interface RuleActivity {
  readonly rejected: number
  readonly would_reject: number
}
