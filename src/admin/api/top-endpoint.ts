import type { Plan } from '../../policy/plan.ts'
import { ApiError } from './api-error.ts'
import type { ApiRoute } from './api-route.ts'
import { findPolicy, findRule } from './find-rule.ts'
import { readCount, readQuery } from './query.ts'
import type { TopJson } from './types.ts'

/** What is asked of all workers: callers of all policies, of one, or of one rule, and so many of each list. */
export interface TopAsk {
  readonly policy: string | undefined
  readonly rule: string | undefined
  readonly limit: number
}

export interface TopParts {
  /** Undefined where EDGE_TOP is off. */
  readonly ask: ((ask: TopAsk) => Promise<TopJson>) | undefined
  readonly plan: () => Plan | undefined
}

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

/** `GET top`: the callers that are rejected most, and those nearest to a limit. */
export function topEndpoint({ ask, plan }: TopParts): ApiRoute {
  return {
    method: 'GET',
    path: 'top',
    handle: async ({ query }) => {
      if (ask === undefined) throw new ApiError('top_off', 'EDGE_TOP is off, so callers are not counted: restart with EDGE_TOP=on')
      const asked = readAsk(query)
      checkNames(asked, plan())
      return { status: 200, json: await ask(asked) }
    },
  }
}

function readAsk(query: URLSearchParams): TopAsk {
  const { policy, rule, limit } = readQuery(query, ['policy', 'rule', 'limit'])
  if (policy === undefined && rule !== undefined) throw new ApiError('bad_request', 'rule: name its policy too')
  return { policy, rule, limit: readCount('limit', limit, DEFAULT_LIMIT, MAX_LIMIT) }
}

function checkNames({ policy, rule }: TopAsk, plan: Plan | undefined): void {
  if (policy === undefined) return
  if (rule === undefined) findPolicy(plan, policy)
  else findRule(plan, { policy, rule })
}
