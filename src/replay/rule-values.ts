import { normalizePath } from '../policy/path.ts'
import type { Plan, PlanRule } from '../policy/plan.ts'
import { Descriptors, type Identification, type RequestParts } from '../request/descriptors.ts'
import type { RequestView } from '../request/view.ts'

/** Reads the values of a rule's limit keys from a request once more: the engine tells those of the rule that rejects alone. */
export class RuleValues {
  readonly #plan: Plan
  readonly #descriptors: Descriptors
  readonly #parts: { -readonly [Name in keyof RequestParts]: RequestParts[Name] } = { path: '', model: undefined }

  constructor(plan: Plan, identification: Identification) {
    this.#plan = plan
    this.#descriptors = new Descriptors(identification, this.#parts)
  }

  of({ keyIndexes }: PlanRule, view: RequestView): string[] {
    this.#parts.path = normalizePath(view.uri)
    this.#descriptors.begin(view, this.#plan.keys)
    const values = keyIndexes.map((index) => {
      const value = this.#descriptors.get(index)
      return typeof value === 'string' ? value : ''
    })
    this.#descriptors.end()
    return values
  }
}
