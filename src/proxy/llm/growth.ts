import type { Logger } from 'pino'
import type { Engine } from '../../engine/engine.ts'
import { type Reservation, type ReservedCharge, reservedAmount } from '../../engine/reservation.ts'
import type { Growth } from '../../engine/reservation-changes.ts'
import type { LlmRequest, ReserveSettings } from '../../llm/llm-request.ts'
import type { BudgetEnd, StreamExcess, StreamMeter } from '../../llm/stream-rules.ts'
import { estimatedCounts, firstTokens, maxCompletionTokens, statedBound, stepTokens, type TokenCounts } from '../../llm/usage.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { LlmMetrics } from '../../telemetry/metrics/llm-metrics.ts'

/** A step that was refused is halved, but not to less than this part of it: by then a stream has come close to the end of its budget. */
const SMALLEST_SHARE = 1 / 32

export interface GrowthParts {
  readonly engine: Pick<Engine, 'grow' | 'overdraw'>
  readonly metrics: Pick<LlmMetrics, 'countGrowth'>
  readonly logger: Logger
  /** Whether the reservation is settled, so that it must not grow any more. */
  readonly isSettled: () => boolean
  /** The model that the backend was asked for, if it replaced the request's own. */
  readonly sentModel: () => string | undefined
  /** Called when a reservation has become larger. */
  readonly onReserved: (charge: ReservedCharge, amount: number) => void
}

/** Returns the charges of a request whose reservations grow. */
export function growingCharges({ charges }: Reservation, request: LlmRequest, parts: GrowthParts): GrowingCharge[] {
  if (request.isGrowable !== true) return []
  return charges.flatMap((charge) => {
    const reserve = charge.rule.llm?.reserve
    return reserve === undefined ? [] : [new GrowingCharge(charge, reserve, request, parts)]
  })
}

/**
 * One rule's reservation, which grows while its stream passes. It asks for a step when less than half a step is left of what it holds, with at most one call
 * under way. Refused, it goes on until all is used up and asks for less, until so little is refused that the budget is used up. Once a bound that the request
 * or the rule states is wholly reserved, it is done.
 */
export class GrowingCharge {
  readonly charge: ReservedCharge
  readonly #parts: GrowthParts
  readonly #request: LlmRequest
  /** The longest completion; Infinity if neither request nor rule states one. */
  readonly #bound: number
  readonly #step: number
  /** Completion tokens that are reserved, and how many it asks for next. */
  #tokens: number
  #next: number
  #counts: TokenCounts
  /** What a settlement would charge now. */
  #used: number
  #isRefused = false
  /** The budget is used up, and has refused more. */
  #isSpent = false
  /** While the rule does not limit its caller, it is asked again when the completion has so many tokens. */
  #exemptUntil = 0
  isPending = false

  constructor(charge: ReservedCharge, reserve: ReserveSettings, request: LlmRequest, parts: GrowthParts) {
    const bound = statedBound(request.requestedTokens, charge.rule.llm!.maxCompletionTokens)
    this.charge = charge
    this.#parts = parts
    this.#request = request
    this.#bound = bound ?? Number.POSITIVE_INFINITY
    this.#step = stepTokens(reserve.step, bound)
    this.#tokens = firstTokens(reserve.first, bound)
    this.#next = this.#step
    this.#counts = estimatedCounts(request.promptTokens, 0)
    this.#used = this.#chargeFor(this.#counts)
  }

  get isEnforced(): boolean {
    return !this.charge.rule.policy.isShadow
  }

  get isSpent(): boolean {
    return this.#isSpent
  }

  /** Whether nothing more may pass until an answer comes. */
  get mustWait(): boolean {
    return this.isPending && this.#left() <= 0
  }

  /** Number of completion tokens from which on it must be told what was used. */
  get noticeAt(): number {
    if (this.#isSpent) return 0
    const { output } = this.#counts
    const perToken = this.#amountOf(this.#step) / this.#step
    if (this.#tokens >= this.#bound || perToken === 0 || this.mustWait) return Number.POSITIVE_INFINITY
    if (output < this.#exemptUntil) return this.#exemptUntil
    return output + Math.max(1, Math.ceil((this.#left() - (this.isPending || this.#isRefused ? 0 : this.#margin())) / perToken))
  }

  /** Notes what was used, and asks for more if that is needed. `onAnswer` is called after an answer that does not come at once. */
  notice(counts: TokenCounts, onAnswer: () => void): void {
    this.#counts = counts
    this.#used = this.#chargeFor(counts)
    while (this.#needsMore()) {
      const tokens = Math.min(this.#next, this.#bound - this.#tokens)
      const amount = this.#amountOf(tokens) + Math.max(0, -this.#left())
      if (amount === 0) return
      const answer = this.#ask(amount)
      if (answer instanceof Promise) {
        this.isPending = true
        void answer.then((later) => {
          this.isPending = false
          this.#take(later, tokens, amount)
          onAnswer()
        })
      } else this.#take(answer, tokens, amount)
    }
  }

  /**
   * Reserves the rest of the bound, into debt if need be, because the response cannot be cut; without a bound, as much as is reserved for requests that do
   * not grow.
   */
  async reserveAll(): Promise<void> {
    const amount = this.#rest()
    this.#tokens = this.#bound
    if (amount <= 0) return
    this.#parts.onReserved(this.charge, amount)
    try {
      await this.#parts.engine.overdraw(this.charge, amount)
    } catch (error) {
      this.#logFailure(error)
    }
  }

  /** The whole reservation, as if it did not grow. */
  get wholeAmount(): number {
    return reservedAmount(this.charge) + Math.max(0, this.#rest())
  }

  #rest(): number {
    const whole = maxCompletionTokens(this.#request, this.charge.rule.llm!.maxCompletionTokens)
    return this.#tokens < whole ? this.#amountOf(whole - this.#tokens) : 0
  }

  #left(): number {
    return reservedAmount(this.charge) - this.#used
  }

  #margin(): number {
    return this.#amountOf(this.#step) / 2
  }

  #needsMore(): boolean {
    if (this.isPending || this.#isSpent || this.#tokens >= this.#bound || this.#parts.isSettled()) return false
    if (this.#counts.output < this.#exemptUntil) return false
    return this.#isRefused ? this.#left() < 0 : this.#left() < this.#margin()
  }

  /** Never throws or rejects: a store that fails is unavailable. */
  #ask(amount: number): Growth | Promise<Growth> {
    const { engine } = this.#parts
    const fail = (error: unknown): Growth => {
      this.#logFailure(error)
      return 'unavailable'
    }
    try {
      const answer = engine.grow(this.charge, amount)
      return answer instanceof Promise ? answer.catch(fail) : answer
    } catch (error) {
      return fail(error)
    }
  }

  #take(answer: Growth, tokens: number, amount: number): void {
    const { metrics, onReserved } = this.#parts
    metrics.countGrowth(this.charge.rule, answer)
    this.#isRefused = answer === 'refused' || answer === 'unavailable'
    if (answer === 'granted') {
      this.#tokens += tokens
      this.#next = Math.min(this.#step, this.#next * 2)
      onReserved(this.charge, amount)
    } else if (answer === 'not_enforced') this.#exemptUntil = this.#counts.output + this.#step
    else if (answer === 'refused') this.#refuse(tokens)
    // Less would not be granted either, and a stream that has nothing left waits for no second answer.
    else if (answer === 'unavailable') this.#isSpent = this.#left() < 0
  }

  /** The rest may do for less than was asked for, unless nothing can be asked. */
  #refuse(tokens: number): void {
    const next = Math.floor(tokens / 2)
    const isLeast = next < this.#step * SMALLEST_SHARE
    if (!isLeast) this.#next = next
    this.#isSpent = isLeast && this.#left() < 0
  }

  /** What so many more completion tokens cost, at the prices and weights of what was used so far. */
  #amountOf(tokens: number): number {
    return this.#chargeFor({ ...this.#counts, output: this.#counts.output + tokens }) - this.#used
  }

  #chargeFor(tokens: TokenCounts): number {
    const sentModel = this.#parts.sentModel()
    return this.charge.settler.settled(reservedAmount(this.charge), { tokens, sentModel, isStreamed: true }) ?? 0
  }

  #logFailure(error: unknown): void {
    const { policy, name } = this.charge.rule
    this.#parts.logger.error({ event: 'reservation_not_grown', policy: policy.id, rule: name, err: error }, 'a reservation could not grow')
  }
}

const NONE: readonly StreamExcess<PlanRule>[] = []

/** The growing reservations of one stream. */
export class StreamGrowth implements StreamMeter<PlanRule> {
  readonly #charges: readonly GrowingCharge[]
  readonly #cuts: boolean
  readonly #onAnswer: () => void
  /** Rules that would have cut the stream if they could, and the completion tokens by then. */
  readonly #wouldCut = new Map<PlanRule, number>()
  #reported = 0
  noticeAt = 0

  /** `cuts` says that the stream can be cut; otherwise it is only watched. `onAnswer` is called when an answer came that had to be waited for. */
  constructor(charges: readonly GrowingCharge[], cuts: boolean, onAnswer: () => void) {
    this.#charges = charges
    this.#cuts = cuts
    this.#onAnswer = onAnswer
  }

  /** Whether the stream must pause: all that an enforcing rule has reserved is used up, and it has asked for more. */
  get mustWait(): boolean {
    return this.#cuts && this.#charges.some((each) => each.mustWait && each.isEnforced)
  }

  /** Returns the rules that would have cut the stream if they could, and were not returned before. */
  newWouldCut(): readonly StreamExcess<PlanRule>[] {
    if (this.#reported === this.#wouldCut.size) return NONE
    const fresh = [...this.#wouldCut].slice(this.#reported)
    this.#reported += fresh.length
    return fresh.map(([rule, completionTokens]) => ({ rule, completionTokens, cause: 'budget' }))
  }

  notice(used: TokenCounts): BudgetEnd<PlanRule> | undefined {
    let end: BudgetEnd<PlanRule> | undefined
    let noticeAt = Number.POSITIVE_INFINITY
    for (const each of this.#charges) {
      each.notice(used, this.#onAnswer)
      const { rule } = each.charge
      if (!each.isSpent) noticeAt = Math.min(noticeAt, each.noticeAt)
      else if (this.#cuts && each.isEnforced) {
        noticeAt = 0
        end ??= { rule, code: rule.counters[0]!.reason === 'budget_exceeded' ? 'budget_exceeded' : 'tpd_exceeded' }
      } else if (!this.#wouldCut.has(rule)) this.#wouldCut.set(rule, used.output)
    }
    this.noticeAt = noticeAt
    return end
  }
}
