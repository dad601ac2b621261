import type { ModelPrice } from './model-price.ts'

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
