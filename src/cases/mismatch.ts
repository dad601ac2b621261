import { headerValue } from '../http/raw-headers.ts'
import type { Plan } from '../policy/plan.ts'
import type { SimulatedResponse } from '../simulation/simulation.ts'
import type { Expectation } from './case-schema.ts'

/** Something that is not as expected. */
export interface CaseMismatch {
  /** `status`, `reason`, `policy`, `rule`, or the name of a header field. */
  readonly what: string
  readonly expected: string
  readonly got: string
}

const NONE = 'none'

export function statusMismatch(expected: number | readonly number[], got: readonly number[]): CaseMismatch {
  const all = typeof expected === 'number' ? [expected] : expected
  return { what: 'status', expected: runsText(all), got: runsText(typeof expected === 'number' && isUniform(got) ? got.slice(0, 1) : got) }
}

/** What of the last response is not as expected, beside its status. */
export function lastMismatches(
  { reason, policy, rule, headers = {} }: Expectation,
  response: SimulatedResponse,
  plan: Plan,
): CaseMismatch[] {
  const found: CaseMismatch[] = []
  const compare = (what: string, expected: string | undefined, got: string | undefined, note = ''): void => {
    if (expected !== undefined && expected !== got) found.push({ what, expected: `${expected}${note}`, got: got ?? NONE })
  }
  const named = policy === undefined ? undefined : plan.policiesById.get(policy)
  compare('reason', reason, response.reason)
  compare('policy', policy, response.policy, named === undefined ? ' (the bundle has no such policy)' : '')
  compare(
    'rule',
    rule,
    response.rule,
    named?.rules.some(({ name }) => name === rule) === false ? ` (policy ${policy} has no such rule)` : '',
  )
  for (const [name, value] of Object.entries(headers)) {
    const got = headerValue(response.headers, name.toLowerCase())
    if (value === null) compare(name, NONE, got ?? NONE)
    else compare(name, String(value), got)
  }
  return found
}

/** `200 ×5, 429`. */
function runsText(statuses: readonly number[]): string {
  const runs: string[] = []
  for (let from = 0; from < statuses.length; ) {
    let to = from
    while (to < statuses.length && statuses[to] === statuses[from]) to++
    runs.push(to - from === 1 ? `${statuses[from]}` : `${statuses[from]} ×${to - from}`)
    from = to
  }
  if (runs.length > MAX_RUNS) runs.splice(MAX_RUNS, runs.length, `… (${statuses.length} in all)`)
  return runs.join(', ')
}

const MAX_RUNS = 20

function isUniform(statuses: readonly number[]): boolean {
  return statuses.every((status) => status === statuses[0])
}
