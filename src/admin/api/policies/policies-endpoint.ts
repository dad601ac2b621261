import type { NameOf } from '../../../engine/name-of.ts'
import type { Plan, PlanPolicy } from '../../../policy/plan.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { findPolicy } from '../find-rule.ts'
import { jsonWithList } from '../json-list.ts'
import { readCount, readQuery } from '../query.ts'
import { SlicedTexts } from '../sliced-texts.ts'
import type { PolicyPage } from '../types.ts'
import type { PolicyActivity } from './policy-activity.ts'
import { policySteps } from './policy-json.ts'
import { searchSteps } from './policy-search.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
const MAX_SEARCH_CHARACTERS = 256
/** A page ends early where its policies are large. */
const MAX_BYTES = 1024 * 1024

export interface PoliciesParts {
  readonly plan: () => Plan | undefined
  /** What each of these policies has decided lately, in their order. */
  readonly activity: (policies: readonly string[]) => Promise<readonly PolicyActivity[]>
  /** Digests credentials. */
  readonly nameOf: NameOf
}

/** GET policies: the active plan, a page at a time, in the order of the bundle; or those with a text in them; or one. */
export function policiesEndpoint({ plan, activity, nameOf }: PoliciesParts): ApiRoute {
  const texts = new SlicedTexts()
  return {
    method: 'GET',
    path: 'policies',
    handle: async ({ query }) => {
      const { policy, search, after, limit } = readQuery(query, ['policy', 'search', 'after', 'limit'])
      if (policy !== undefined && (search ?? after) !== undefined)
        throw new ApiError('bad_request', 'policy names one policy: leave search and after out')
      if (search !== undefined && search.length > MAX_SEARCH_CHARACTERS)
        throw new ApiError('bad_request', `search: expected at most ${MAX_SEARCH_CHARACTERS} characters`)
      const count = readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT)
      const active = plan()
      const searched = policy === undefined ? policiesBehind(active, after) : [findPolicy(active, policy)]
      // One more shows whether there is a next page.
      const found = await texts.make(searchSteps(searched, search, count + 1))
      const policies = found.slice(0, count)
      const lately = await activity(policies.map(({ id }) => id))
      const page = { version: active?.version.toString() ?? null, policies, lately, hasMore: found.length > count }
      return { status: 200, text: await texts.make(pageSteps(page, nameOf)) }
    },
  }
}

function policiesBehind(plan: Plan | undefined, id: string | undefined): readonly PlanPolicy[] {
  if (id === undefined) return plan?.policies ?? []
  const policy = plan?.policiesById.get(id)
  if (policy === undefined)
    throw new ApiError('unknown_policy', 'after: the active bundle has no such policy; it may have changed, begin again')
  return plan!.policies.slice(policy.index + 1)
}

interface Page {
  readonly version: string | null
  readonly policies: readonly PlanPolicy[]
  /** What each of them decided. */
  readonly lately: readonly PolicyActivity[]
  readonly hasMore: boolean
}

function* pageSteps({ version, policies, lately, hasMore }: Page, nameOf: NameOf): Generator<void, Buffer> {
  const texts: Buffer[] = []
  let bytes = 0
  for (const [i, policy] of policies.entries()) {
    if (bytes > MAX_BYTES) break
    const text = Buffer.from(JSON.stringify(yield* policySteps(policy, lately[i]!, nameOf)))
    texts.push(text)
    bytes += text.length
    yield
  }
  const isLast = !hasMore && texts.length === policies.length
  const members: Omit<PolicyPage, 'policies'> = { bundle_version: version, next: isLast ? null : policies[texts.length - 1]!.id }
  return jsonWithList(members, 'policies', texts)
}
