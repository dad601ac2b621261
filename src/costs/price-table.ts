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
    if (model === undefined) return this.other
    const exact = this.#exact.get(model)
    if (exact !== undefined) return exact
    for (const length of this.#lengths) {
      const price = length <= model.length ? this.#prefixes.get(model.slice(0, length)) : undefined
      if (price !== undefined) return price
    }
    return this.other
  }
}
