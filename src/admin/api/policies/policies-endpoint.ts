import type { Plan, PlanPolicy } from '../../../policy/plan.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { jsonWithList } from '../json-list.ts'
import { readCount, readQuery } from '../query.ts'
import { SlicedTexts } from '../sliced-texts.ts'
import type { PolicyActivity } from './policy-activity.ts'
import { policyJson } from './policy-json.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000
/** A page ends early where its policies are large. */
const MAX_BYTES = 1024 * 1024

export interface PoliciesParts {
  readonly plan: () => Plan | undefined
  /** What each of these policies has decided lately, in their order. */
  readonly activity: (policies: readonly string[]) => Promise<readonly PolicyActivity[]>
}

/** GET policies: the active plan, a page at a time, in the order of the bundle. */
export function policiesEndpoint({ plan, activity }: PoliciesParts): ApiRoute {
  const texts = new SlicedTexts()
  return {
    method: 'GET',
    path: 'policies',
    handle: async ({ query }) => {
      const { after, limit } = readQuery(query, ['after', 'limit'])
      const count = readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT)
      const active = plan()
      const from = after === undefined ? 0 : placeBehind(active, after)
      const policies = active?.policies.slice(from, from + count) ?? []
      const lately = await activity(policies.map(({ id }) => id))
      return { status: 200, text: await texts.make(pageSteps(active, policies, lately)) }
    },
  }
}

function placeBehind(plan: Plan | undefined, id: string): number {
  const policy = plan?.policiesById.get(id)
  if (policy === undefined)
    throw new ApiError('unknown_policy', 'after: the active bundle has no such policy; it may have changed, begin again')
  return policy.index + 1
}

function* pageSteps(plan: Plan | undefined, policies: readonly PlanPolicy[], lately: readonly PolicyActivity[]): Generator<void, Buffer> {
  const texts: Buffer[] = []
  let bytes = 0
  for (const [i, policy] of policies.entries()) {
    if (bytes > MAX_BYTES) break
    const text = Buffer.from(JSON.stringify(policyJson(policy, lately[i]!)))
    texts.push(text)
    bytes += text.length
    yield
  }
  const last = policies[texts.length - 1]
  const next = last === undefined || last.index === plan!.policies.length - 1 ? null : last.id
  return jsonWithList({ bundle_version: plan?.version.toString() ?? null, next }, 'policies', texts)
}
