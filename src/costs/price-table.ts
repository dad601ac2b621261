import type { TokenCounts } from '../llm/usage.ts'
import { PRICED, type Settler, type SettlingRecord, type Usage } from './cost.ts'
import { cappedAmount, nanoOf } from './money.ts'

const ANY = '*'

/** Prices by model: the name itself, or a prefix that ends in `*`. The longest one that matches applies; `*` matches every model. */
export class PriceTable {
  readonly #exact = new Map<string, ModelPrice>()
  readonly #prefixes = new Map<string, ModelPrice>()
  /** The lengths of all prefixes, the longest first. */
  readonly #lengths: readonly number[]
  /** For models that no other pattern matches, and where the model is unknown. */
  readonly other: ModelPrice

  /** One of the patterns is `*`. */
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
   * What the response's model costs, as far as the table knows it. A longer name of the model that was asked for, such as one with a date, is not
   * another model unless it has a price of its own.
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

/** Prices as a bundle writes them: units of the currency for a million tokens, with at most six decimals. */
export interface Prices {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
}

/** What the tokens of one model cost: trillionths of a unit for each, whole numbers. */
export class ModelPrice implements Settler {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly output: number
  readonly record: SettlingRecord

  /** In trillionths for a token, which are millionths for a million tokens. */
  constructor({ input, cachedInput, cacheWrite, output }: Prices) {
    this.input = input
    this.cachedInput = cachedInput
    this.cacheWrite = cacheWrite
    this.output = output
    this.record = { kind: PRICED, numbers: [input, cachedInput, cacheWrite, output] }
  }

  /** As its record has them. */
  static of([input = 0, cachedInput = 0, cacheWrite = 0, output = 0]: readonly number[]): ModelPrice {
    return new ModelPrice({ input, cachedInput, cacheWrite, output })
  }

  /** The most that a request may cost, in billionths: nothing is known to be cached. */
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
    // More than the whole prompt cannot be cached: such counts make nothing cheaper.
    if (read + written > prompt) return this.#total(prompt, 0, 0, completion)
    return this.#total(prompt - read - written, read, written, completion)
  }

  /** Rounded up once. */
  #total(input: number, cached: number, written: number, output: number): number {
    const whole = nano(input, this.input) + nano(cached, this.cachedInput) + nano(written, this.cacheWrite) + nano(output, this.output)
    const rest = pico(input, this.input) + pico(cached, this.cachedInput) + pico(written, this.cacheWrite) + pico(output, this.output)
    return cappedAmount(whole + Math.ceil(rest / THOUSAND))
  }
}

/** What the caller says that it cost, or 0 where nothing was used; undefined where neither is known. */
export function settledMoney(usage: Usage): number | undefined {
  if (usage === 'nothing') return 0
  return usage === 'unknown' || usage.cost === undefined ? undefined : nanoOf(usage.cost)
}

const THOUSAND = 1000

// tokens × price is cut into whole billionths and a rest in trillionths by the thousands of both factors: no product exceeds 2^53 unless the
// amount does.

function nano(tokens: number, price: number): number {
  const rest = price % THOUSAND
  return tokens * Math.floor(price / THOUSAND) + Math.floor(tokens / THOUSAND) * rest + Math.floor(((tokens % THOUSAND) * rest) / THOUSAND)
}

function pico(tokens: number, price: number): number {
  return ((tokens % THOUSAND) * (price % THOUSAND)) % THOUSAND
}
