import type { TokenCounts } from '../llm/usage.ts'
import { PRICED, type Settler, type SettlingRecord, type Usage } from './cost.ts'
import { cappedAmount, nanoOf } from './money.ts'

const ANY = '*'

/** Prices by model name, or by a prefix that ends in `*`. The exact name applies first, then the longest prefix; `*` matches every model. */
export class PriceTable {
  readonly #exact = new Map<string, ModelPrice>()
  readonly #prefixes = new Map<string, ModelPrice>()
  /** The lengths of all prefixes, the longest first. */
  readonly #lengths: readonly number[]
  /** The price of models that no other pattern matches, and of requests whose model is unknown. */
  readonly other: ModelPrice

  /** One of the patterns must be `*`. */
  constructor(prices: Iterable<readonly [pattern: string, price: ModelPrice]>) {
    for (const [pattern, price] of prices) {
      if (pattern.endsWith(ANY)) this.#prefixes.set(pattern.slice(0, -1), price)
      else this.#exact.set(pattern, price)
    }
    this.#lengths = [...new Set([...this.#prefixes.keys()].map(({ length }) => length))].sort((a, b) => b - a)
    this.other = this.#prefixes.get('')!
  }

  priceOf(model: string | undefined): ModelPrice {
    return (model === undefined ? undefined : this.#named(model)) ?? this.other
  }

  /**
   * Returns the price of the model that responded. If its name only extends the requested name, such as by a date, it is the requested model,
   * unless it has a price of its own.
   */
  priceOfServed(served: string, requested: string | undefined): ModelPrice {
    const named = this.#named(served)
    if (named !== undefined && named !== this.other) return named
    return this.priceOf(requested !== undefined && served.startsWith(requested) ? requested : served)
  }

  #named(model: string): ModelPrice | undefined {
    const exact = this.#exact.get(model)
    if (exact !== undefined) return exact
    for (const length of this.#lengths) {
      const price = length <= model.length ? this.#prefixes.get(model.slice(0, length)) : undefined
      if (price !== undefined) return price
    }
    return undefined
  }
}

/** Prices in millionths of a unit for a million tokens, which are trillionths for one token. They are whole numbers. */
export interface Prices {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
}

/** The prices of one model's tokens, in whole trillionths of a unit for each token. */
export class ModelPrice implements Settler {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
  readonly record: SettlingRecord

  constructor({ input, cachedInput, cacheWrite, output }: Prices) {
    this.input = input
    this.cachedInput = cachedInput
    this.cacheWrite = cacheWrite
    this.output = output
    this.record = { kind: PRICED, numbers: [input, cachedInput, cacheWrite, output] }
  }

  /** Restores the prices from the numbers of a settling record. */
  static of([input = 0, cachedInput = 0, cacheWrite = 0, output = 0]: readonly number[]): ModelPrice {
    return new ModelPrice({ input, cachedInput, cacheWrite, output })
  }

  /** Returns what to reserve for a request, in billionths, as if nothing were cached. */
  reserved(prompt: number, completion: number): number {
    return this.#total(prompt, 0, 0, completion)
  }

  settled(_amount: number, usage: Usage): number | undefined {
    return settledMoney(usage) ?? (typeof usage === 'string' || usage.tokens === undefined ? undefined : this.#costOf(usage.tokens))
  }

  #costOf({ prompt, completion, cache }: TokenCounts): number {
    if (cache === undefined) return this.#total(prompt, 0, 0, completion)
    const { read, written, isInPrompt } = cache
    if (!isInPrompt) return this.#total(prompt, read, written, completion)
    // No more than the whole prompt can be cached, so larger counts are ignored and make nothing cheaper.
    if (read + written > prompt) return this.#total(prompt, 0, 0, completion)
    return this.#total(prompt - read - written, read, written, completion)
  }

  /** Rounds up only once, after all parts are added. */
  #total(input: number, cached: number, written: number, output: number): number {
    const whole = nano(input, this.input) + nano(cached, this.cachedInput) + nano(written, this.cacheWrite) + nano(output, this.output)
    const rest = pico(input, this.input) + pico(cached, this.cachedInput) + pico(written, this.cacheWrite) + pico(output, this.output)
    return cappedAmount(whole + Math.ceil(rest / THOUSAND))
  }
}

/** Returns the cost that the caller reports, or 0 if nothing was used; undefined if neither is known. */
export function settledMoney(usage: Usage): number | undefined {
  if (usage === 'nothing') return 0
  return usage === 'unknown' || usage.cost === undefined ? undefined : nanoOf(usage.cost)
}

const THOUSAND = 1000

// tokens × price is split into whole billionths and a rest in trillionths, by the thousands of both factors, so that no product exceeds 2^53
// unless the amount does.

function nano(tokens: number, price: number): number {
  const rest = price % THOUSAND
  return tokens * Math.floor(price / THOUSAND) + Math.floor(tokens / THOUSAND) * rest + Math.floor(((tokens % THOUSAND) * rest) / THOUSAND)
}

function pico(tokens: number, price: number): number {
  return ((tokens % THOUSAND) * (price % THOUSAND)) % THOUSAND
}
