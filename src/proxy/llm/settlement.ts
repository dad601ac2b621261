import type { Logger } from 'pino'
import type { Usage } from '../../costs/cost.ts'
import type { Engine } from '../../engine/engine.ts'
import { type Reservation, type ReservedCharge, reservedAmount, settledAmount } from '../../engine/reservation.ts'
import type { Unsettled } from '../../engine/unsettled.ts'
import { asksForTokens, type LlmRequest } from '../../llm/llm-request.ts'
import { estimatedCounts, type TokenCounts } from '../../llm/usage.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { Choice } from '../../policy/routes/routing.ts'
import type { CostMetrics, InFlightMetrics, LlmMetrics, ReservedRequest } from '../../telemetry/metrics/llm-metrics.ts'
import type { Sampler } from '../../telemetry/sampler.ts'
import type { RequestTrace } from '../../telemetry/tracing/request-trace.ts'
import type { Clock } from '../../time/clock.ts'
import { isMoney, type SettledCharge, type SettledRequest, shownModel } from '../../usage-log/usage-line.ts'
import { type GrowingCharge, growingCharges } from './growth.ts'

/** The way in which a response ended. */
export type SettlementEnd = 'done' | 'truncated' | 'client_gone' | 'backend_failed'

type Estimate = 'fair' | 'low' | undefined

/** What a response of which nothing is known costs by its size. It is charged if that is more than was reserved: a client may reserve as little as it likes. */
export interface PassedSize {
  readonly tokens: TokenCounts
  readonly isStreamed: boolean
}

export interface SettlementParts {
  readonly engine: Engine
  readonly metrics: LlmMetrics
  readonly costMetrics: CostMetrics
  readonly inFlightMetrics: Pick<InFlightMetrics, 'open'>
  readonly logger: Logger
  readonly clock: Clock
  /** Limits the log lines about responses, by event and policy. */
  readonly sampled: Sampler<string>
  readonly trace: RequestTrace | undefined
  /** The trace of the request, whether or not we trace it; undefined if it has none. */
  readonly traceId?: string | undefined
  /** Writes the request to the usage log. It must not throw. Undefined if EDGE_USAGE_DIR is not set. */
  readonly noteUsage?: NoteUsage | undefined
}

export type NoteUsage = (settled: SettledRequest) => void

/** A reservation and its one settlement. A response can end in several ways, and the first end counts. */
export class Settlement implements Unsettled {
  readonly reservation: Reservation
  /** Returns what the response has used so far, as far as it is known before its end. */
  seen: (() => TokenCounts) | undefined
  /** The charges that grow while the stream passes. */
  readonly growing: readonly GrowingCharge[]
  /** The model that the backend was asked for, if it replaced the request's own. */
  sentModel: string | undefined
  #backend: string | undefined
  readonly #request: LlmRequest
  readonly #parts: SettlementParts
  /** One for each charge, in the same order. */
  readonly #inFlight: readonly ReservedRequest[]
  #isSettled = false
  /** A call was left because nothing came of it in time. */
  #isRepeated = false
  readonly sinceMs: number
  #firstByteMs: number | undefined
  #status: number | undefined

  constructor(reservation: Reservation, request: LlmRequest, parts: SettlementParts) {
    const { engine, metrics, logger, clock } = parts
    this.reservation = reservation
    this.#request = request
    this.sinceMs = clock.nowMs()
    this.#parts = parts
    for (const { rule, amount } of reservation.charges) this.#metricsOf(rule).countReserved(rule, amount)
    const onReserved = (charge: ReservedCharge, amount: number): void => {
      this.#metricsOf(charge.rule).countReserved(charge.rule, amount)
      this.#inFlightOf(charge).add(amount)
    }
    this.growing = growingCharges(reservation, request, {
      engine,
      metrics,
      logger,
      onReserved,
      sentModel: () => this.sentModel,
      isSettled: () => this.#isSettled,
    })
    this.#inFlight = reservation.charges.map((charge) =>
      parts.inFlightMetrics.open(
        charge.rule,
        charge.amount,
        this.growing.some((each) => each.charge === charge),
      ),
    )
    engine.noteUnsettled(this)
  }

  get charges(): readonly ReservedCharge[] {
    return this.reservation.charges
  }

  /** As if the client left now. */
  amountNow(charge: ReservedCharge): number {
    const tokens = this.seen?.() ?? estimatedCounts(this.#request.promptTokens, 0)
    return settledAmount(charge, { tokens, sentModel: this.sentModel, isStreamed: this.#request.isStream, estimate: 'fair' })
  }

  /** Whether all policies are in shadow mode at the moment; then no response is changed. */
  get isShadowed(): boolean {
    return this.#parts.engine.isShadowed
  }

  /** Notes which backend of the bundle the request is sent to, and as which model. */
  noteCall({ backend, model }: Pick<Choice, 'backend' | 'model'>): void {
    this.#backend = backend.name
    this.sentModel = model
  }

  /** Notes that a backend has the request and did not answer in time, and that another one is asked now. */
  noteLeftCall(): void {
    this.#isRepeated = asksForTokens(this.#request)
  }

  /** Notes that the head of the response has arrived that the client gets. */
  noteHead(status: number): void {
    this.#status = status
    this.#firstByteMs = this.#parts.clock.nowMs() - this.sinceMs
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Reserves for a response that is no stream which can be cut: from now on the charges hold all that it may cost. */
  reserveAll(): void {
    for (const each of this.growing) {
      this.#inFlightOf(each.charge).stopGrowing()
      void each.reserveAll()
    }
  }

  /** Settles what each rule reserved to what was used, as the rule's cost sees it. `estimate` says how good our count is if the provider's is missing. */
  settle(end: SettlementEnd, used: TokenCounts, estimate?: Estimate): void {
    this.#settle(end, { tokens: used, sentModel: this.sentModel, isStreamed: false, estimate })
  }

  /** Settles after a whole response without the provider's count. What it shows is charged, whatever rules do about streams without a count. */
  settleUncounted(used: TokenCounts): void {
    this.#settle('done', { tokens: used, sentModel: this.sentModel, isStreamed: false, isUncounted: true })
  }

  /** Settles after a stream. Rules that do not watch streams keep what they took. */
  settleStream(end: SettlementEnd, used: TokenCounts, estimate: Estimate): void {
    this.#settle(end, { tokens: used, sentModel: this.sentModel, isStreamed: true, estimate })
  }

  /** Gives everything back, because nothing was used. */
  giveBack(end: SettlementEnd): void {
    this.#settle(end, 'nothing')
  }

  /** Settles a request that the backend has taken, and of whose response nothing came that costs tokens. Rules that trust no estimate keep what they took. */
  settleUnfinished(): void {
    this.#settle('backend_failed', asksForTokens(this.#request) ? 'unfinished' : 'nothing')
  }

  /** Keeps everything that was taken, because the usage is unknown; of a reservation that grows, all that it would have grown to. */
  keepReservation(end: SettlementEnd, passed?: PassedSize): void {
    this.#settle(end, this.#bySize(passed), true)
  }

  /**
   * Keeps the reservation after a response with neither usage nor a text that we know, and warns operators: the backend may speak an unknown API.
   * `isSilent` says that nothing came that could have been text, so that a reservation that grows keeps only what it has taken.
   */
  keepNotUnderstood(passed: PassedSize | undefined, isSilent = false): void {
    const { metrics } = this.#parts
    for (const policy of new Set(this.reservation.charges.map(({ rule }) => rule.policy))) {
      metrics.countNotUnderstood(policy)
      this.#warn(
        { event: 'llm_response_not_understood', policy: policy.id },
        'a response has neither usage nor text in a known format: its reservation stays charged, or its size if that is more',
      )
    }
    this.#settle('done', this.#bySize(passed), !isSilent)
  }

  #bySize(passed: PassedSize | undefined): Usage {
    return passed === undefined ? 'unknown' : { ...passed, sentModel: this.sentModel, estimate: 'low' }
  }

  /** `isWhole` says that reservations which grow are charged in full. */
  #settle(end: SettlementEnd, known: Usage, isWhole = false): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#parts.engine.noteSettled(this)
    const usage = this.#isRepeated ? repeated(known) : known
    const { metrics, trace, noteUsage } = this.#parts
    const settled: SettledCharge[] = []
    metrics.countSettlement(end)
    trace?.noteSettlement(end, usage)
    for (const [i, charge] of this.reservation.charges.entries()) {
      this.#inFlight[i]!.close()
      const growing = isWhole ? this.growing.find((each) => each.charge === charge) : undefined
      const amount = Math.max(growing?.wholeAmount ?? 0, settledAmount(charge, usage))
      const reserved = reservedAmount(charge)
      this.#metricsOf(charge.rule).countUsed(charge.rule, reserved, amount)
      settled.push({ charge, reserved, amount })
    }
    noteUsage?.(this.#settledRequest(end, usage, settled, this.#noteUnlisted(usage)))
    for (const { charge, amount } of settled) this.#settleCharge(charge, amount)
  }

  /** Tells operators of a model that responded and that only "*" has a price for, which is meant to be the highest. Returns its name. */
  #noteUnlisted(usage: Usage): string | undefined {
    let unlisted: string | undefined
    for (const { rule, settler } of this.reservation.charges) {
      const model = settler.unlistedModel?.(usage)
      if (model === undefined) continue
      unlisted = shownModel(model)
      this.#parts.costMetrics.countUnlistedModel(rule)
      this.#warn(
        { event: 'model_unlisted', policy: rule.policy.id, rule: rule.name, model: unlisted },
        'a model responded that only "*" has a price for: add it to the table of prices, or to its aliases',
      )
    }
    return unlisted
  }

  #warn(what: { readonly event: string; readonly policy: string; readonly [field: string]: string }, message: string): void {
    const { logger, clock, sampled } = this.#parts
    const unlogged = sampled.admit(`${what.event} ${what.policy}`, clock.nowMs())
    if (unlogged !== undefined) logger.warn({ ...what, unlogged }, message)
  }

  #settledRequest(end: SettlementEnd, usage: Usage, charges: readonly SettledCharge[], servedModel: string | undefined): SettledRequest {
    const { clock, traceId } = this.#parts
    return {
      request: this.#request,
      charges,
      usage,
      end,
      sentModel: this.sentModel,
      servedModel,
      backend: this.#backend,
      status: this.#status,
      firstByteMs: this.#firstByteMs,
      lastByteMs: clock.nowMs() - this.sinceMs,
      traceId,
    }
  }

  #inFlightOf(charge: ReservedCharge): ReservedRequest {
    return this.#inFlight[this.reservation.charges.indexOf(charge)]!
  }

  /** Tokens and money have separate metrics. */
  #metricsOf(rule: PlanRule): Pick<LlmMetrics, 'countReserved' | 'countUsed'> {
    return isMoney({ rule }) ? this.#parts.costMetrics : this.#parts.metrics
  }

  /** A charge that cannot be settled, at once or later, does not affect the others. */
  #settleCharge(charge: ReservedCharge, amount: number): void {
    try {
      this.#parts.engine.settle(charge, amount)?.catch((error: unknown) => this.#logUnsettled(charge, error))
    } catch (error) {
      this.#logUnsettled(charge, error)
    }
  }

  #logUnsettled({ rule }: ReservedCharge, error: unknown): void {
    this.#parts.logger.error(
      { event: 'settlement_failed', policy: rule.policy.id, rule: rule.name, err: error },
      'a reservation could not be settled and stays charged',
    )
  }
}

/** What a request has used, one call of which was left. What that one has used is never known, so it is charged once, however many there were. */
function repeated(usage: Usage): Usage {
  if (usage === 'nothing') return 'unfinished'
  return typeof usage === 'string' ? usage : { ...usage, isRepeated: true }
}
