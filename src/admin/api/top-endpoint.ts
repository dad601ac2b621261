import type { Plan } from '../../policy/plan.ts'
import { ApiError } from './api-error.ts'
import type { ApiRoute } from './api-route.ts'

/** What is asked of all workers: callers of all policies, of one, or of one rule, and so many of each list. */
export interface TopAsk {
  readonly policy: string | undefined
  readonly rule: string | undefined
  readonly limit: number
}

export interface TopParts {
  /** Undefined where EDGE_TOP is off. Returns the response's JSON. */
  readonly ask: ((ask: TopAsk) => Promise<unknown>) | undefined
  readonly plan: () => Plan | undefined
}

const PARAMETERS = ['policy', 'rule', 'limit']
const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

/** `GET top`: the callers that are rejected most, and those nearest to a limit. */
export function topEndpoint({ ask, plan }: TopParts): ApiRoute {
  return {
    method: 'GET',
    path: 'top',
    handle: async ({ query }) => {
      if (ask === undefined) throw new ApiError('top_off', 'EDGE_TOP is off: callers are not counted')
      const asked = readAsk(query)
      checkNames(asked, plan())
      return { status: 200, json: await ask(asked) }
    },
  }
}

function readAsk(query: URLSearchParams): TopAsk {
  for (const name of new Set(query.keys())) {
    if (!PARAMETERS.includes(name)) throw new ApiError('bad_request', `unknown parameter ${name}; expected ${PARAMETERS.join(', ')}`)
    if (query.getAll(name).length > 1) throw new ApiError('bad_request', `${name}: expected it once`)
  }
  const [policy, rule] = ['policy', 'rule'].map((name) => query.get(name) ?? undefined)
  if (policy === undefined && rule !== undefined) throw new ApiError('bad_request', 'rule: name its policy too')
  return { policy, rule, limit: readLimit(query.get('limit')) }
}

function readLimit(text: string | null): number {
  if (text === null) return DEFAULT_LIMIT
  const limit = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > MAX_LIMIT) throw new ApiError('bad_request', `limit: expected a number from 1 to ${MAX_LIMIT}`)
  return limit
}

function checkNames({ policy, rule }: TopAsk, plan: Plan | undefined): void {
  if (policy === undefined) return
  const found = plan?.policiesById.get(policy)
  if (found === undefined) throw new ApiError('unknown_policy', `the active bundle has no policy ${JSON.stringify(policy)}`)
  if (rule === undefined || found.rules.some(({ name }) => name === rule)) return
  throw new ApiError('unknown_rule', `policy ${JSON.stringify(policy)} has no rule ${JSON.stringify(rule)}`)
}
