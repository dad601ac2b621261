import type { Failure } from './faults.ts'

/** Models that are counted by name; a client may invent any number of them. */
const MAX_MODELS = 1000
const OTHERS = '(others)'

interface ModelUsage {
  requests: number
  prompt_tokens: number
  completion_tokens: number
}

/** What was served since the start, as a provider's bill would have it: `GET /fake/usage`. */
export class ServedUsage {
  #requests = 0
  readonly #failures = new Map<Failure, number>()
  readonly #models = new Map<string, ModelUsage>()

  noteRequest(): void {
    this.#requests++
  }

  noteFailure(failure: Failure): void {
    this.#failures.set(failure, (this.#failures.get(failure) ?? 0) + 1)
  }

  /** Counts a response that has begun, and returns what counts the tokens that are sent from then on. */
  begin(model: string, promptTokens: number): (tokens: number) => void {
    const usage = this.#usageOf(model)
    usage.requests++
    usage.prompt_tokens += promptTokens
    return (tokens) => {
      usage.completion_tokens += tokens
    }
  }

  toJSON(): object {
    const models = [...this.#models.values()]
    const sum = (field: keyof ModelUsage): number => models.reduce((total, usage) => total + usage[field], 0)
    return {
      requests: this.#requests,
      responses: sum('requests'),
      failures: Object.fromEntries(this.#failures),
      prompt_tokens: sum('prompt_tokens'),
      completion_tokens: sum('completion_tokens'),
      models: Object.fromEntries(this.#models),
    }
  }

  #usageOf(model: string): ModelUsage {
    const name = this.#models.has(model) || this.#models.size < MAX_MODELS ? model : OTHERS
    const known = this.#models.get(name)
    if (known !== undefined) return known
    const added = { requests: 0, prompt_tokens: 0, completion_tokens: 0 }
    this.#models.set(name, added)
    return added
  }
}
