import type { TokenCounts } from '../llm/usage.ts'
import { FULLY_PRICED, PRICED, type Settler, type SettlingRecord, type Usage } from './cost.ts'
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

/** Prices of tokens in millionths of a unit for a million tokens, which are trillionths for one token. They are whole numbers. */
export interface TokenPrices {
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  readonly cacheWrite1h: number
  readonly output: number
}

/** What a model costs. */
export interface Prices extends TokenPrices {
  /** Prices of requests with more input than so many tokens; undefined if all requests cost the same. */
  readonly above?: LongInputPrices | undefined
  /** What each request costs beside its tokens, in billionths of a unit. */
  readonly perRequest?: number
}

interface LongInputPrices extends TokenPrices {
  readonly tokens: number
}

/** The prices of one model. Amounts are in billionths of a unit. */
export class ModelPrice implements Settler {
  readonly record: SettlingRecord
  readonly #prices: Prices

  constructor(prices: Prices) {
    this.#prices = prices
    this.record = recordOf(prices)
  }

  /** Restores the prices from the numbers of a settling record of the kind FULLY_PRICED. */
  static of([
    perRequest = 0,
    input = 0,
    cachedInput = 0,
    cacheWrite = 0,
    cacheWrite1h = 0,
    output = 0,
    ...above
  ]: readonly number[]): ModelPrice {
    return new ModelPrice({ perRequest, input, cachedInput, cacheWrite, cacheWrite1h, output, above: longInputFrom(above) })
  }

  /** The same for the kind PRICED. */
  static ofFour([input = 0, cachedInput = 0, cacheWrite = 0, output = 0]: readonly number[]): ModelPrice {
    return new ModelPrice({ input, cachedInput, cacheWrite, cacheWrite1h: cacheWrite, output })
  }

  /** Returns what to reserve for a request. The provider may cache any part of the prompt, so all of it has the highest of the input prices. */
  reserved(prompt: number, completion: number): number {
    const prices = this.#pricesFor(prompt)
    const highest = Math.max(prices.input, prices.cachedInput, prices.cacheWrite, prices.cacheWrite1h)
    return this.#total(nano(prompt, highest) + nano(completion, prices.output), pico(prompt, highest) + pico(completion, prices.output))
  }

  settled(_amount: number, usage: Usage): number | undefined {
    return settledMoney(usage) ?? (typeof usage === 'string' || usage.tokens === undefined ? undefined : this.#costOf(usage.tokens))
  }

  #costOf({ input, cachedInput, cacheWrite, cacheWrite1h, output }: TokenCounts): number {
    const prices = this.#pricesFor(input)
    const plain = input - cachedInput - cacheWrite
    const write5m = cacheWrite - cacheWrite1h
    const whole = nano(plain, prices.input) + nano(cachedInput, prices.cachedInput) + nano(write5m, prices.cacheWrite)
    const rest = pico(plain, prices.input) + pico(cachedInput, prices.cachedInput) + pico(write5m, prices.cacheWrite)
    return this.#total(
      whole + nano(cacheWrite1h, prices.cacheWrite1h) + nano(output, prices.output),
      rest + pico(cacheWrite1h, prices.cacheWrite1h) + pico(output, prices.output),
    )
  }

  /** A request whose input is long has other prices as a whole, not only for what exceeds the threshold. */
  #pricesFor(input: number): TokenPrices {
    const { above } = this.#prices
    return above !== undefined && input > above.tokens ? above : this.#prices
  }

  /** Rounds up only once, after all parts are added. */
  #total(whole: number, rest: number): number {
    return cappedAmount(whole + Math.ceil(rest / THOUSAND) + (this.#prices.perRequest ?? 0))
  }
}

/** Returns the kind that earlier versions know, too, if the model has no other prices. */
function recordOf({ above, perRequest = 0, ...prices }: Prices): SettlingRecord {
  const { input, cachedInput, cacheWrite, cacheWrite1h, output } = prices
  if (above === undefined && perRequest === 0 && cacheWrite1h === cacheWrite)
    return { kind: PRICED, numbers: [input, cachedInput, cacheWrite, output] }
  const longInput = above === undefined ? [] : [above.tokens, ...numbersOf(above)]
  return { kind: FULLY_PRICED, numbers: [perRequest, ...numbersOf(prices), ...longInput] }
}

function numbersOf({ input, cachedInput, cacheWrite, cacheWrite1h, output }: TokenPrices): number[] {
  return [input, cachedInput, cacheWrite, cacheWrite1h, output]
}

function longInputFrom([tokens, input = 0, cachedInput = 0, cacheWrite = 0, cacheWrite1h = 0, output = 0]: readonly number[]):
  | LongInputPrices
  | undefined {
  return tokens === undefined ? undefined : { tokens, input, cachedInput, cacheWrite, cacheWrite1h, output }
}

/** Returns the cost that the caller reports, or 0 if nothing was used; undefined if neither is known. */
export function settledMoney(usage: Usage): number | undefined {
  if (usage === 'nothing' || usage === 'unfinished') return 0
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
