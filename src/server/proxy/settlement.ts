import type { Logger } from 'pino'
import type { Engine } from '../../engine/engine.ts'
import type { Reservation } from '../../engine/reservation.ts'
import { addTokens } from '../../llm/tokens.ts'
import type { TokenCounts } from '../../llm/usage.ts'
import type { LlmMetrics } from '../metrics/llm-metrics.ts'

/** What ended an answer. */
export type SettlementEnd = 'done' | 'truncated' | 'client_gone' | 'backend_failed'

export interface SettlementParts {
  readonly engine: Engine
  readonly metrics: LlmMetrics
  readonly logger: Logger
}

/** A reservation and its one settlement: of all the ends that an answer can have, the first counts. */
export class Settlement {
  readonly reservation: Reservation
  readonly #parts: SettlementParts
  #isSettled = false

  constructor(reservation: Reservation, parts: SettlementParts) {
    this.reservation = reservation
    this.#parts = parts
    for (const { rule, tokens } of reservation.holds) parts.metrics.countReserved(rule, tokens)
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Corrects what each rule holds to what was used. */
  settle(end: SettlementEnd, used: TokenCounts): void {
    this.#settle(end, () => addTokens(used.prompt, used.completion))
  }

  /** The same after a stream: rules that do not watch streams keep what they took. */
  settleStream(end: SettlementEnd, used: TokenCounts): void {
    this.#settle(end, ({ rule, tokens }) => (rule.llm!.streaming.enabled ? addTokens(used.prompt, used.completion) : tokens))
  }

  /** Nothing was used: all of it goes back. */
  giveBack(end: SettlementEnd): void {
    this.#settle(end, () => 0)
  }

  /** What was used cannot be told: what was taken stays taken. */
  stand(end: SettlementEnd): void {
    this.#settle(end, (hold) => hold.tokens)
  }

  #settle(end: SettlementEnd, usedBy: (hold: Reservation['holds'][number]) => number): void {
    if (this.#isSettled) return
    this.#isSettled = true
    const { metrics } = this.#parts
    metrics.countSettlement(end)
    for (const hold of this.reservation.holds) {
      const used = usedBy(hold)
      metrics.countUsed(hold.rule, hold.tokens, used)
      void this.#settleHold(hold, used)
    }
  }

  /** One that fails, at once or later, leaves the others as they are. */
  async #settleHold(hold: Reservation['holds'][number], used: number): Promise<void> {
    const { engine, logger } = this.#parts
    try {
      await engine.settle(this.reservation, hold, used)
    } catch (error) {
      logger.error(
        { event: 'settlement_failed', policy: hold.rule.policy.id, rule: hold.rule.name, err: error },
        'tokens could not be settled',
      )
    }
  }
}
