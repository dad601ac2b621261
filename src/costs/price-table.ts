import type { TokenCounts } from '../llm/usage.ts'
import { FULLY_PRICED, PRICED, type Settler, type SettlingRecord, type Usage } from './cost.ts'
import { cappedAmount, nanoOf } from './money.ts'

const ANY = '*'

/** Names that were looked up are remembered up to this number and length. A response can name anything. */
const MAX_REMEMBERED = 256
const MAX_NAME_CHARACTERS = 256

/**
 * Prices by model name, or by a prefix that ends in `*`. The exact name applies first, then the longest prefix, then names that differ only in their date or
 * version; `*` matches every other model.
 */
export class PriceTable {
  readonly #exact = new Map<string, ModelPrice>()
  readonly #prefixes = new Map<string, ModelPrice>()
  /** Prices of entries that state a date or version: by that version, however it is spelled, and by the name without it. */
  readonly #versions = new Map<string, ModelPrice>()
  /** The lengths of all prefixes but `*`, the longest first. */
  readonly #lengths: readonly number[]
  readonly #remembered = new Map<string, ModelPrice>()
  /** The price of models that no other pattern matches, and of requests whose model is unknown. */
  readonly other: ModelPrice

  /** One of the patterns must be `*`. An alias has the price of the model that it stands for. */
  constructor(prices: Iterable<readonly [pattern: string, price: ModelPrice]>, aliases: Readonly<Record<string, string>> = {}) {
    for (const [pattern, price] of prices) {
      this.#addVersion(pattern, price)
      if (pattern.endsWith(ANY)) this.#prefixes.set(pattern.slice(0, -1), price)
      else this.#exact.set(pattern, price)
    }
    this.other = this.#prefixes.get('')!
    this.#prefixes.delete('')
    this.#lengths = [...new Set([...this.#prefixes.keys()].map(({ length }) => length))].sort((a, b) => b - a)
    const aliased = Object.entries(aliases).map(([alias, model]) => [alias, this.#find(model)] as const)
    for (const [alias, price] of aliased) if (price !== this.other) this.#exact.set(alias, price)
  }

  priceOf(model: string | undefined): ModelPrice {
    if (model === undefined) return this.other
    const known = this.#exact.get(model) ?? this.#remembered.get(model)
    if (known !== undefined) return known
    const price = this.#find(model)
    if (model.length > MAX_NAME_CHARACTERS) return price
    if (this.#remembered.size >= MAX_REMEMBERED) this.#remembered.clear()
    this.#remembered.set(model, price)
    return price
  }

  /** Whether only `*` has a price for the model, in a table that prices some by name. */
  isUnlisted(model: string): boolean {
    return this.#exact.size + this.#prefixes.size > 0 && this.priceOf(model) === this.other
  }

  #find(model: string): ModelPrice {
    const exact = this.#exact.get(model)
    if (exact !== undefined) return exact
    for (const length of this.#lengths) {
      const price = length <= model.length ? this.#prefixes.get(model.slice(0, length)) : undefined
      if (price !== undefined) return price
    }
    const { name, version } = versioned(model)
    return this.#versions.get(`${name}@${version}`) ?? this.#exact.get(name) ?? this.#versions.get(name) ?? this.other
  }

  /** A version that no entry states has the highest prices of those that are stated. In `model@*`, the `*` stands for any version. */
  #addVersion(pattern: string, price: ModelPrice): void {
    const { name, version } = versioned(pattern)
    if (name === pattern) return
    for (const key of [name, `${name}@${version}`]) {
      const other = this.#versions.get(key)
      this.#versions.set(key, other === undefined ? price : price.orMore(other))
    }
  }
}

/**
 * The date or version at the end of a model's name: `-20251001`, `@20251001`, `-2024-08-06`, `-0613` (month and day), `-2411` (year and month), `-001`.
 * Nothing else is: `-mini` and `-preview` are other models, and `-180` and `-1024` are sizes.
 */
const VERSION =
  /(?:[@-]\d{8}|-\d{4}-\d{2}-\d{2}|-(?:0[1-9]|1[12])(?:0[1-9]|[12]\d|3[01])|-10(?:0[1-9]|1\d|2[0-35-9]|3[01])|-2\d(?:0[1-9]|1[0-2])|-00\d|@\*)$/
/** What Bedrock adds to a name, with or without a version. */
const REVISION = ':0'

/** Divides a name into the model and its date or version, which has the same digits however it is spelled; empty if the name states none. */
function versioned(model: string): { readonly name: string; readonly version: string } {
  const plain = model.endsWith(REVISION) ? model.slice(0, -REVISION.length) : model
  const at = plain.search(VERSION)
  return at <= 0 ? { name: plain, version: '' } : { name: plain.slice(0, at), version: plain.slice(at).replace(/[@-]/g, '') }
}

/** Returns a model's name without its date or version. */
export function unversioned(model: string): string {
  return versioned(model).name
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

  /** Returns prices at which no request costs less than at either. */
  orMore(other: ModelPrice): ModelPrice {
    const [one, two] = [this.#prices, other.#prices]
    const long = [one.above, two.above].filter((above) => above !== undefined)
    const tokens = Math.min(...long.map((above) => above.tokens))
    return new ModelPrice({
      ...highest([one, two]),
      above: long.length === 0 ? undefined : { ...highest([one, two, ...long]), tokens },
      perRequest: Math.max(one.perRequest ?? 0, two.perRequest ?? 0),
    })
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

function highest(prices: readonly TokenPrices[]): TokenPrices {
  const most = (name: keyof TokenPrices): number => Math.max(...prices.map((each) => each[name]))
  return {
    input: most('input'),
    cachedInput: most('cachedInput'),
    cacheWrite: most('cacheWrite'),
    cacheWrite1h: most('cacheWrite1h'),
    output: most('output'),
  }
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

/** A table of prices as a bundle has it: every other member is a model, or a prefix of some. */
export interface PriceTableConfig {
  readonly aliases?: Readonly<Record<string, string>> | undefined
}

/** Returns the models of a table, or prefixes of them, with their prices. Workers call it, so it is not in the schema's file. */
export function modelsOf<Price>({ aliases: _names, ...models }: PriceTableConfig): Readonly<Record<string, Price>> {
  return models as Readonly<Record<string, Price>>
}
