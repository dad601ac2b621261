import { MoneyFamily, nanoOfUnits } from './llm-metrics.ts'
import { CounterFamily, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

/** What one rule charged for a request. */
export interface ChargedRule {
  readonly policy: string
  readonly rule: string
  /** Tokens, or billionths of a unit of the currency. */
  readonly amount: number
  readonly isMoney: boolean
}

const LOSSES = ['disk_slow', 'disk_failed', 'too_long', 'worker_died', 'internal_error'] as const

export type UsageLoss = (typeof LOSSES)[number]

/**
 * Metrics of the usage log. For each rule, what the written lines were charged, what was lost and what is waiting add up to what the rule was charged in all,
 * exactly.
 */
export class UsageLogMetrics {
  readonly written: Series
  readonly #memory: MetricMemory
  readonly #lost: CounterFamily
  readonly #lostTokens: CounterFamily
  readonly #lostCost: MoneyFamily
  readonly #waiting: Series
  readonly #waitingTokens: CounterFamily
  readonly #waitingCost: MoneyFamily
  /** The rules that have something waiting. */
  readonly #waitingRules = new Map<string, ChargedRule>()

  constructor(memory: MetricMemory) {
    this.#memory = memory
    this.written = new CounterFamily(memory, 'edge_usage_lines_written_total').series()
    this.#lost = new CounterFamily(memory, 'edge_usage_lines_lost_total')
    // An alert on the increase of a series must find it at 0 first.
    for (const reason of LOSSES) this.#lost.series(reason)
    this.#lostTokens = new CounterFamily(memory, 'edge_usage_lost_tokens_total')
    this.#lostCost = new MoneyFamily(memory, 'edge_usage_lost_cost_total')
    this.#waiting = new CounterFamily(memory, 'edge_usage_waiting_lines').series()
    this.#waitingTokens = new CounterFamily(memory, 'edge_usage_waiting_tokens')
    this.#waitingCost = new MoneyFamily(memory, 'edge_usage_waiting_cost')
  }

  /** Counts a line that will never be written. */
  countLost(reason: UsageLoss, rules: Iterable<ChargedRule>): void {
    this.#lost.series(reason).count++
    this.#addLost(rules)
  }

  /** Counts a line that waits in this worker. */
  countWaiting(rules: Iterable<ChargedRule>): void {
    this.#waiting.count++
    for (const each of rules) {
      const { policy, rule, amount, isMoney } = each
      this.#waitingRules.set(JSON.stringify([policy, rule, isMoney]), each)
      if (isMoney) this.#waitingCost.add(policy, rule, amount)
      else this.#waitingTokens.series(policy, rule).count += amount
    }
  }

  /** To be called when the lines of this worker are handed over. */
  clearWaiting(): void {
    this.#waiting.measure(0)
    for (const { policy, rule, isMoney } of this.#waitingRules.values()) {
      if (isMoney) this.#waitingCost.clear(policy, rule)
      else this.#waitingTokens.series(policy, rule).measure(0)
    }
    this.#waitingRules.clear()
  }

  /** Counts what waited in a worker that has died as lost. To be called before its gauges are cleared. */
  loseWaiting(worker: number): void {
    const memory = this.#memory
    for (const { cell } of memory.entriesOf('edge_usage_waiting_lines')) {
      const lines = memory.ofLane(worker, cell)
      if (lines > 0) this.#lost.series('worker_died').count += lines
    }
    this.#addLost(this.#waitingIn(worker))
  }

  *#waitingIn(worker: number): Generator<ChargedRule> {
    for (const name of ['edge_usage_waiting_tokens', 'edge_usage_waiting_cost']) {
      const isMoney = name === 'edge_usage_waiting_cost'
      for (const { values, cell } of this.#memory.entriesOf(name)) {
        const shown = this.#memory.ofLane(worker, cell)
        if (shown > 0) yield { policy: values[0]!, rule: values[1]!, amount: isMoney ? nanoOfUnits(shown) : shown, isMoney }
      }
    }
  }

  #addLost(rules: Iterable<ChargedRule>): void {
    for (const { policy, rule, amount, isMoney } of rules) {
      if (isMoney) this.#lostCost.add(policy, rule, amount)
      else this.#lostTokens.series(policy, rule).count += amount
    }
  }
}
