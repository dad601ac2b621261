import type { DescriptorKey } from '../policy/descriptor-key.ts'
import type { Matches } from '../policy/index/routes.ts'
import type { Plan, PlanPolicy } from '../policy/plan.ts'

/** The parts of a request that rules read, and that its line has therefore. */
export interface LoggedParts {
  /** In lower case, without Authorization. */
  readonly headers: readonly string[]
  /** Undefined where nothing in the field is read. */
  readonly authorization: AuthorizationParts | undefined
  readonly cookies: readonly string[]
  readonly queries: readonly QueryPart[]
  /** Texts that the gateway's configuration sends along. */
  readonly contexts: readonly string[]
  /** How much of the client's address: all of it, or the network that `ip:address` stands for. */
  readonly client: 'whole' | 'network' | undefined
}

interface AuthorizationParts {
  /** The token, or the whole field. */
  readonly hasCredential: boolean
  readonly claims: readonly Claim[]
}

type Claim = Extract<DescriptorKey, { kind: 'jwt' }>

interface QueryPart {
  /** As it is written in a query. */
  readonly encodedName: string
  readonly nameBytes: string
}

/** All that a bundle reads, of any request. */
export function partsOfPlan(plan: Plan): LoggedParts {
  return partsOf(plan.keys, plan.policies)
}

/** What these policies read. */
function partsOfPolicies({ keys }: Plan, policies: readonly PlanPolicy[]): LoggedParts {
  const indexes = new Set(
    policies.flatMap(({ rules }) =>
      rules.flatMap(({ match = [], keyIndexes }) => [...match.map(({ keyIndex }) => keyIndex), ...keyIndexes]),
    ),
  )
  return partsOf(
    Array.from(indexes, (index) => keys[index]!),
    policies,
  )
}

/** How many values are read for a line, at most. */
export function countOf({ headers, authorization, cookies, queries, contexts }: LoggedParts): number {
  return headers.length + (authorization?.claims.length ?? 0) + cookies.length + queries.length + contexts.length
}

/** Facts of addresses that a header field may state (`request/descriptors`). */
const FACT_HEADERS = { address: [], country: [], type: ['x-asn-type'], tor: ['x-tor-exit'] } as const

function partsOf(keys: readonly DescriptorKey[], policies: readonly PlanPolicy[]): LoggedParts {
  const headers = new Set<string>()
  const claims: Claim[] = []
  const cookies: string[] = []
  const queries: QueryPart[] = []
  const contexts: string[] = []
  let hasCredential = false
  let client: LoggedParts['client']
  const addHeader = (name: string): void => {
    if (name === 'authorization') hasCredential = true
    else headers.add(name)
  }
  for (const key of keys) {
    switch (key.kind) {
      case 'header':
        addHeader(key.name)
        break
      case 'bearer':
        hasCredential = true
        break
      case 'jwt':
        claims.push(key)
        break
      case 'cookie':
        cookies.push(key.name)
        break
      case 'query':
        queries.push({ encodedName: encodeURIComponent(key.text.slice('query:'.length)), nameBytes: key.nameBytes })
        break
      case 'context':
        contexts.push(key.name)
        break
      case 'ip':
        client = key.fact === 'address' ? (client ?? 'network') : 'whole'
        for (const name of FACT_HEADERS[key.fact]) headers.add(name)
        break
    }
  }
  for (const { rules } of policies) for (const { cost } of rules) if (cost.header !== undefined) addHeader(cost.header)
  const authorization = hasCredential || claims.length > 0 ? { hasCredential, claims } : undefined
  return { headers: [...headers], authorization, cookies, queries, contexts, client }
}

/** Of names and policies, in all sets together: some 10 MB. */
const MAX_KEPT = 100_000

/** What the policies read that cover a request. It is worked out once for each set of policies, for most requests are covered by the same few. */
export class MatchedParts {
  readonly #plan: Plan
  readonly #bySet = new Map<string, LoggedParts>()
  #kept = 0

  constructor(plan: Plan) {
    this.#plan = plan
  }

  of({ policies, count }: Matches<PlanPolicy>): LoggedParts {
    let set = ''
    for (let i = 0; i < count; i++) set += `${policies[i]!.index} `
    const known = this.#bySet.get(set)
    if (known !== undefined) return known
    const parts = partsOfPolicies(this.#plan, policies.slice(0, count) as PlanPolicy[])
    this.#keep(set, parts, 1 + count + countOf(parts))
    return parts
  }

  #keep(set: string, parts: LoggedParts, size: number): void {
    if (this.#kept + size > MAX_KEPT) {
      this.#bySet.clear()
      this.#kept = 0
    }
    this.#bySet.set(set, parts)
    this.#kept += size
  }
}
