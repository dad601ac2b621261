import type { Logger } from 'pino'
import type { Usage } from '../costs/cost.ts'
import type { Engine } from '../engine/engine.ts'
import { type Reservation, type ReservedCharge, settledAmount } from '../engine/reservation.ts'
import type { TokenCounts } from '../llm/usage.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { CostMetrics } from '../telemetry/metrics/cost-metrics.ts'
import type { LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import type { RequestTrace } from '../telemetry/tracing/request-trace.ts'

/** What ended a response. */
export type SettlementEnd = 'done' | 'truncated' | 'client_gone' | 'backend_failed'

export interface SettlementParts {
  readonly engine: Engine
  readonly metrics: LlmMetrics
  readonly costMetrics: CostMetrics
  readonly logger: Logger
  readonly trace: RequestTrace | undefined
}

/** A reservation and its one settlement: of all the ends that a response can have, the first counts. */
export class Settlement {
  readonly reservation: Reservation
  readonly #parts: SettlementParts
  #isSettled = false

  constructor(reservation: Reservation, parts: SettlementParts) {
    this.reservation = reservation
    this.#parts = parts
    for (const { rule, amount } of reservation.charges) this.#metricsOf(rule).countReserved(rule, amount)
  }

  /** Whether all policies are in shadow mode now: then no response is changed. */
  get isShadowed(): boolean {
    return this.#parts.engine.isShadowed
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Corrects what each rule reserved to what was used, as its cost sees it. */
  settle(end: SettlementEnd, used: TokenCounts): void {
    this.#settle(end, { tokens: used, isStreamed: false })
  }

  /** The same after a stream: rules that do not watch streams keep what they took. */
  settleStream(end: SettlementEnd, used: TokenCounts): void {
    this.#settle(end, { tokens: used, isStreamed: true })
  }

  /** Nothing was used: all of it goes back. */
  giveBack(end: SettlementEnd): void {
    this.#settle(end, 'nothing')
  }

  /** The usage is unknown: what was taken stays taken. */
  keepReservation(end: SettlementEnd): void {
    this.#settle(end, 'unknown')
  }

  #settle(end: SettlementEnd, usage: Usage): void {
    if (this.#isSettled) return
    this.#isSettled = true
    const { metrics, trace } = this.#parts
    metrics.countSettlement(end)
    trace?.noteSettlement(end, usage)
    for (const charge of this.reservation.charges) {
      const amount = settledAmount(charge, usage)
      this.#metricsOf(charge.rule).countUsed(charge.rule, charge.amount, amount)
      void this.#settleCharge(charge, amount)
    }
  }

  /** Tokens and money are counted apart. */
  #metricsOf({ counters }: PlanRule): Pick<LlmMetrics, 'countReserved' | 'countUsed'> {
    return counters[0]!.reason === 'budget_exceeded' ? this.#parts.costMetrics : this.#parts.metrics
  }

  /** One that fails, at once or later, leaves the others as they are. */
  async #settleCharge(charge: ReservedCharge, amount: number): Promise<void> {
    const { engine, logger } = this.#parts
    try {
      await engine.settle(charge, amount)
    } catch (error) {
      logger.error(
        { event: 'settlement_failed', policy: charge.rule.policy.id, rule: charge.rule.name, err: error },
        'a reservation could not be settled; what it took stays counted',
      )
    }
  }
}
