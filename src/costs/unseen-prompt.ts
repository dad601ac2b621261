import type { LlmRequest } from '../llm/llm-request.ts'
import { MAX_TOKENS } from '../llm/usage.ts'
import type { Settler, SettlingRecord, Usage } from './cost.ts'

/** What a rule adds to the estimate of a prompt that lies elsewhere, in part or as a whole. */
export interface UnseenPrompt {
  readonly tokens: number
  /**
   * The smallest limit of a rule that does not say how many: then they take at most a quarter of it, and never make a request too large for it that is not so
   * without them. Undefined if the rule says how many.
   */
  readonly of: number | undefined
}

/** The tokens of a rule that limits days or money and does not say how many. */
export const DEFAULT_UNSEEN_TOKENS = 20_000

/** Returns what a rule adds to the prompt of this request; undefined if nothing. */
export function unseenIn(body: LlmRequest | undefined, unseen: UnseenPrompt | undefined): UnseenPrompt | undefined {
  return body?.hasUnseenPrompt === true && unseen !== undefined && unseen.tokens > 0 ? unseen : undefined
}

/** Returns the amount with the unseen tokens, from what it is without and with all of them. */
export function withUnseen(seen: number, all: number, { of }: UnseenPrompt): number {
  return of === undefined ? all : seen + Math.max(0, Math.min(all - seen, Math.floor(of / 4), of - seen))
}

/** Settles a request whose prompt lies elsewhere: until the provider has counted it, the estimate includes what was reserved for that. */
export class UnseenSettler implements Settler {
  readonly #settler: Settler
  readonly #unseen: UnseenPrompt

  constructor(settler: Settler, unseen: UnseenPrompt) {
    this.#settler = settler
    this.#unseen = unseen
  }

  get record(): SettlingRecord {
    return this.#settler.record
  }

  unlistedModel(usage: Usage): string | undefined {
    return this.#settler.unlistedModel?.(usage)
  }

  settled(amount: number, usage: Usage): number | undefined {
    const seen = this.#settler.settled(amount, usage)
    if (seen === undefined || typeof usage === 'string' || usage.tokens?.isInputEstimated !== true) return seen
    const { tokens } = usage
    const all = { ...usage, tokens: { ...tokens, input: Math.min(tokens.input + this.#unseen.tokens, MAX_TOKENS) } }
    return withUnseen(seen, this.#settler.settled(amount, all)!, this.#unseen)
  }
}
