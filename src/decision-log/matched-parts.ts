import type { Plan, PlanPolicy } from '../policy/plan.ts'
import type { Matches } from '../policy/routes.ts'
import { countOf, type LoggedParts, partsOfPolicies } from './logged-parts.ts'

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
