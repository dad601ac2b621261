import type { DescriptorKey } from '../policy/descriptor-key.ts'
import type { Matches } from '../policy/index/routes.ts'
import type { Plan, PlanPolicy } from '../policy/plan.ts'
import { LLM_KEY_FIELDS } from '../request/bearer.ts'

/** The parts of a request that rules read, which are the parts that its log line contains. */
export interface LoggedParts {
  /** Lower-case names, without Authorization. */
  readonly headers: readonly string[]
  /** Those of which only a digest is logged. */
  readonly digested: readonly string[]
  /** Undefined if no rule reads the field. */
  readonly authorization: AuthorizationParts | undefined
  readonly cookies: readonly string[]
  readonly queries: readonly QueryPart[]
  /** Names of the strings that a gateway's configuration sends along with a request. */
  readonly contexts: readonly string[]
  /** Labels of the caller, with `id` for who it is. */
  readonly labels: readonly string[]
  /** Claims of the verified caller; those of other bundles are parts of `authorization`. */
  readonly verifiedClaims: readonly Claim[]
  /** How much of the client's address to log: all of it, or only the network that `ip:address` stands for. */
  readonly client: 'whole' | 'network' | undefined
}

interface AuthorizationParts {
  /** Whether a rule reads the token or the whole field. */
  readonly hasCredential: boolean
  readonly claims: readonly Claim[]
}

type Claim = Extract<DescriptorKey, { kind: 'jwt' }>

interface QueryPart {
  /** Percent-encoded, as in a query. */
  readonly encodedName: string
  readonly nameBytes: string
}

/** Returns everything that rules and routes read of any request. */
export function partsOfPlan(plan: Plan): LoggedParts {
  return partsOf(plan, plan.decidingKeys, plan.policies)
}

/** Returns what these policies read. */
function partsOfPolicies(plan: Plan, policies: readonly PlanPolicy[]): LoggedParts {
  const indexes = new Set(
    policies.flatMap(({ rules }) =>
      rules.flatMap(({ match = [], keyIndexes }) => [...match.map(({ keyIndex }) => keyIndex), ...keyIndexes]),
    ),
  )
  return partsOf(
    plan,
    Array.from(indexes, (index) => plan.keys[index]!),
    policies,
  )
}

/** Returns how many values a line may contain, not counting the credential and the client's address. */
export function countOf({ headers, authorization, cookies, queries, contexts, labels, verifiedClaims }: LoggedParts): number {
  const claims = (authorization?.claims.length ?? 0) + verifiedClaims.length
  return headers.length + claims + cookies.length + queries.length + contexts.length + labels.length
}

/** Header fields that may state facts about an address (see `request/descriptors`). */
const FACT_HEADERS = { address: [], country: [], type: ['x-asn-type'], tor: ['x-tor-exit'] } as const

function partsOf({ callers }: Plan, keys: readonly DescriptorKey[], policies: readonly PlanPolicy[]): LoggedParts {
  const headers = new Set<string>()
  const digested = new Set<string>()
  const claims: Claim[] = []
  const cookies: string[] = []
  const queries: QueryPart[] = []
  const contexts: string[] = []
  const labels: string[] = []
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
      case 'key':
        hasCredential = true
        for (const name of LLM_KEY_FIELDS) digested.add(name)
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
      case 'caller':
        labels.push(key.label)
        break
      case 'ip':
        client = key.fact === 'address' ? (client ?? 'network') : 'whole'
        for (const name of FACT_HEADERS[key.fact]) headers.add(name)
        break
      case 'path': // part of the path, which every line contains
      case 'model': // in the line of every request whose body was read
      case 'descriptor': // requests have none
        break
      default:
        key satisfies never // the log would lack the values of a kind that has no case here
    }
  }
  for (const { rules } of policies) for (const { cost } of rules) if (cost.header !== undefined) addHeader(cost.header)
  const [verifiedClaims, sentClaims] = callers?.verifiesTokens === true ? [claims, []] : [[], claims]
  const authorization = hasCredential || sentClaims.length > 0 ? { hasCredential, claims: sentClaims } : undefined
  // What another rule reads in clear is logged in clear.
  const onlyDigested = [...digested].filter((name) => !headers.has(name))
  return {
    headers: [...headers, ...onlyDigested],
    digested: onlyDigested,
    authorization,
    cookies,
    queries,
    contexts,
    labels,
    verifiedClaims,
    client,
  }
}

/** Bound on names and policies in all cached sets together, about 10 MB. */
const MAX_KEPT = 100_000

/** The parts that the policies covering a request read, cached by set of policies: most requests are covered by the same few sets. */
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
