import type { LlmSettings } from '../llm/llm-settings.ts'
import { addTokens } from '../llm/tokens.ts'
import { chargedTokens } from '../llm/usage.ts'
import { completionBound, isCountedOnly } from './completion-bound.ts'
import { amountWithoutUsage, type Cost, type RequestFacts, type Settling, type Usage } from './cost.ts'
import { SETTLED_TO_TOKENS } from './settling-kinds.ts'

/** The most tokens that a request may use: its prompt, and the longest completion that it can get. Settled to the actual usage. */
export class LlmReservation implements Cost, Settling {
  readonly needsBody = true
  readonly isLeasable = false
  readonly at = 'usage'
  readonly settling = this
  readonly record = SETTLED_TO_TOKENS
  readonly #llm: LlmSettings

  constructor(llm: LlmSettings) {
    this.#llm = llm
  }

  of(facts: RequestFacts): number {
    if (isCountedOnly(facts.path)) return 0
    return addTokens(facts.body?.promptTokens ?? 0, completionBound(facts, this.#llm.maxCompletionTokens))
  }

  /** Where the proxy has not read the request's body, it does not read the response either. */
  applies({ body, isSettledLater }: RequestFacts): boolean {
    return body !== undefined || isSettledLater
  }

  settled(amount: number, usage: Usage): number | undefined {
    if (usage === 'nothing') return 0
    if (usage === 'unknown' || usage.tokens === undefined) return undefined
    // A rule that does not watch streams does not know the usage of one.
    if (usage.isStreamed && !this.#llm.streaming.enabled) return undefined
    return amountWithoutUsage(chargedTokens(usage.tokens), amount, usage, this.#llm.withoutUsage)
  }
}
