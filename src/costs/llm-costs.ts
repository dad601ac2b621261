import { isCountingPath, isEmbeddingPath } from '../llm/endpoints.ts'
import type { LlmSettings, ReserveSettings, WithoutUsage } from '../llm/llm-request.ts'
import {
  chargedTokens,
  firstTokens,
  maxCompletionTokens,
  reservedTokens,
  statedBound,
  stepTokens,
  type TokenWeights,
} from '../llm/usage.ts'
import {
  AMBIGUOUS,
  amountWithoutUsage,
  type Cost,
  type RequestFacts,
  SETTLED_TO_COST,
  SETTLED_TO_TOKENS,
  type Settler,
  type Settling,
  type SettlingRecord,
  type Usage,
  WEIGHTED,
} from './cost.ts'
import { nanoOf, readNano } from './money.ts'
import { type PriceTable, settledMoney } from './price-table.ts'
import { type UnseenPrompt, UnseenSettler, unseenIn, withUnseen } from './unseen-prompt.ts'

/** A header field with the cost of a request, in units of the currency. The numbers here are in billionths. */
export interface CostField {
  readonly header: string
  /** The cost if the field is missing or not a positive number. */
  readonly missing: number
  readonly max: number
}

/**
 * Money, in billionths: the most that a request may cost at the prices of its model, settled to its usage at the same prices, or the amount in
 * a header field. With both, the field counts only if no body was read. A number given with the question wins over either.
 */
export class BudgetCost implements Cost, Settling {
  readonly needsBody: boolean
  readonly isLeasable = false
  readonly at = 'usage'
  readonly settling = this
  readonly record = SETTLED_TO_COST
  readonly header: string | undefined
  readonly #prices: PriceTable | undefined
  readonly #field: CostField | undefined
  readonly #withoutUsage: WithoutUsage
  readonly #reserve: ReserveSettings | undefined
  readonly #unseen: UnseenPrompt | undefined

  /** At least one of `prices` and `field` must be given. */
  constructor(
    prices: PriceTable | undefined,
    field: CostField | undefined,
    withoutUsage: WithoutUsage = 'estimate',
    reserve: ReserveSettings | undefined = undefined,
    unseen: UnseenPrompt | undefined = undefined,
  ) {
    this.needsBody = prices !== undefined
    this.header = field?.header
    this.#prices = prices
    this.#field = field
    this.#withoutUsage = withoutUsage
    this.#reserve = reserve
    this.#unseen = unseen
  }

  of(facts: RequestFacts): number {
    if (facts.isGiven) return nanoOf(facts.given)!
    const prices = this.#prices
    const { body } = facts
    if (prices === undefined || (body === undefined && this.#field !== undefined)) return costIn(this.#field!, facts)
    if (isCountingPath(facts.path)) return 0
    const prompt = body?.promptTokens ?? 0
    const seen = this.#reserved(prices, prompt, facts)
    const unseen = unseenIn(body, this.#unseen)
    return unseen === undefined ? seen : withUnseen(seen, this.#reserved(prices, prompt + unseen.tokens, facts), unseen)
  }

  #reserved(prices: PriceTable, prompt: number, facts: RequestFacts): number {
    const { body, sendableModels } = facts
    const completion = reservedCompletion(facts, undefined, this.#reserve)
    if (sendableModels === undefined) return prices.priceOf(body?.model).reserved(prompt, completion)
    let most = 0
    for (const model of sendableModels) most = Math.max(most, prices.priceOf(model ?? body?.model).reserved(prompt, completion))
    return most
  }

  growsBy(facts: RequestFacts): number | undefined {
    return stepOf(facts, undefined, this.#reserve)
  }

  /** If the proxy has not read the request's body, it does not read the response either. What only counts tokens has nothing to settle. */
  applies({ path, body, isSettledLater }: RequestFacts): boolean {
    return isSettledLater || (body !== undefined && this.#prices !== undefined && !isCountingPath(path))
  }

  forRequest({ body }: RequestFacts): Settler {
    if (this.#prices === undefined) return this
    const price = new RequestedPrice(this.#prices, body?.model, this.#withoutUsage)
    const unseen = unseenIn(body, this.#unseen)
    return unseen === undefined ? price : new UnseenSettler(price, unseen)
  }

  settled(_amount: number, usage: Usage): number | undefined {
    return settledMoney(usage)
  }
}

/** Settles by the model that was sent, or by the model that responded if that is more expensive: a client may name any model. */
class RequestedPrice implements Settler {
  readonly #prices: PriceTable
  readonly #model: string | undefined
  readonly #withoutUsage: WithoutUsage

  constructor(prices: PriceTable, model: string | undefined, withoutUsage: WithoutUsage) {
    this.#prices = prices
    this.#model = model
    this.#withoutUsage = withoutUsage
  }

  get record(): SettlingRecord {
    return this.#prices.priceOf(this.#model).record
  }

  settled(amount: number, usage: Usage): number | undefined {
    const sent = (typeof usage === 'string' ? undefined : usage.sentModel) ?? this.#model
    const settled = this.#prices.priceOf(sent).settled(amount, usage)
    if (settled === undefined) return undefined
    const served = typeof usage === 'string' ? undefined : usage.tokens?.model
    const dearer = served === undefined ? 0 : this.#prices.priceOf(served).settled(amount, usage)!
    return amountWithoutUsage(Math.max(settled, dearer), amount, usage, this.#withoutUsage)
  }

  unlistedModel(usage: Usage): string | undefined {
    const served = typeof usage === 'string' ? undefined : usage.tokens?.model
    return served !== undefined && this.#prices.isUnlisted(served) ? served : undefined
  }
}

function costIn({ header, missing, max }: CostField, facts: RequestFacts): number {
  const text = facts.headerText(header)
  if (text === null) return AMBIGUOUS
  const cost = text === undefined ? 0 : readNano(text)
  return cost === 0 ? missing : Math.min(cost, max)
}

/** The most tokens that a request may use: its prompt, and the longest completion that it can get, by their weights. It is settled to the actual usage. */
export class LlmReservation implements Cost, Settling {
  readonly needsBody = true
  readonly isLeasable = false
  readonly at = 'usage'
  readonly settling = this
  readonly record: SettlingRecord
  readonly #llm: LlmSettings
  readonly #unseen: UnseenPrompt | undefined

  constructor(llm: LlmSettings, unseen?: UnseenPrompt) {
    this.#llm = llm
    this.#unseen = unseen
    const { weights } = llm
    // Tokens of rules without weights can be settled by earlier versions, too.
    this.record = weights === undefined ? SETTLED_TO_TOKENS : { kind: WEIGHTED, numbers: numbersOf(weights) }
  }

  of(facts: RequestFacts): number {
    if (isCountingPath(facts.path)) return 0
    const { maxCompletionTokens, reserve, weights } = this.#llm
    const prompt = facts.body?.promptTokens ?? 0
    const completion = reservedCompletion(facts, maxCompletionTokens, reserve)
    const seen = reservedTokens(prompt, completion, weights)
    const unseen = unseenIn(facts.body, this.#unseen)
    return unseen === undefined ? seen : withUnseen(seen, reservedTokens(prompt + unseen.tokens, completion, weights), unseen)
  }

  forRequest({ body }: RequestFacts): Settler {
    const unseen = unseenIn(body, this.#unseen)
    return unseen === undefined ? this : new UnseenSettler(this, unseen)
  }

  growsBy(facts: RequestFacts): number | undefined {
    return stepOf(facts, this.#llm.maxCompletionTokens, this.#llm.reserve)
  }

  /** If the proxy has not read the request's body, it does not read the response either. What only counts tokens has nothing to settle. */
  applies({ path, body, isSettledLater }: RequestFacts): boolean {
    return isSettledLater || (body !== undefined && !isCountingPath(path))
  }

  settled(amount: number, usage: Usage): number | undefined {
    if (usage === 'nothing') return 0
    const { weights, withoutUsage, streaming } = this.#llm
    if (usage === 'unfinished') return amountWithoutUsage(0, amount, usage, withoutUsage)
    if (usage === 'unknown' || usage.tokens === undefined) return undefined
    // A rule that does not watch streams does not know their usage.
    if (usage.isStreamed && !streaming.enabled) return undefined
    return amountWithoutUsage(chargedTokens(usage.tokens, weights), amount, usage, withoutUsage)
  }
}

function numbersOf({ input, cachedInput, cacheWrite, output }: TokenWeights): number[] {
  return [input, cachedInput, cacheWrite, output]
}

/** Restores the weights from the numbers of a settling record. */
export function weightsFrom([input = 0, cachedInput = 0, cacheWrite = 0, output = 0]: readonly number[]): TokenWeights {
  return { input, cachedInput, cacheWrite, output }
}

/** Returns the longest completion that a request can get, in tokens, or what its reservation begins with if it grows. */
function reservedCompletion({ path, body }: RequestFacts, configured: number | undefined, reserve: ReserveSettings | undefined): number {
  if (isEmbeddingPath(path) && body?.isForText !== true) return 0
  if (reserve !== undefined && body?.isGrowable === true) return firstTokens(reserve.first, statedBound(body.requestedTokens, configured))
  return maxCompletionTokens(body, configured)
}

/** Returns undefined if the reservation does not grow: it holds the whole completion from the start. */
function stepOf({ body }: RequestFacts, configured: number | undefined, reserve: ReserveSettings | undefined): number | undefined {
  if (reserve === undefined || body?.isGrowable !== true) return undefined
  const bound = statedBound(body.requestedTokens, configured)
  return bound !== undefined && bound <= reserve.first ? undefined : stepTokens(reserve.step, bound)
}
