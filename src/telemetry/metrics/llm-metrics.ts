import { NANO } from '../../costs/money.ts'
import type { PlanPolicy, PlanRule } from '../../policy/plan.ts'
import type { MetricName } from './catalogue.ts'
import { CounterFamily, Histogram, type HistogramSeries, type Series } from './metric-families.ts'
import type { MetricMemory } from './metric-memory.ts'

type TruncationCause = 'max_completion_tokens' | 'budget'

/** Metrics of token budgets. */
export class LlmMetrics {
  readonly openStreams: Series
  readonly #reserved: CounterFamily
  readonly #used: CounterFamily
  readonly #givenBack: CounterFamily
  readonly #overdrawn: CounterFamily
  readonly #settlements: CounterFamily
  readonly #notUnderstood: CounterFamily
  readonly #truncations: CounterFamily
  readonly #wouldTruncate: CounterFamily
  readonly #growth: CounterFamily
  readonly #estimates: Readonly<Record<'prompt' | 'completion', HistogramSeries>>

  constructor(memory: MetricMemory) {
    this.openStreams = new CounterFamily(memory, 'edge_llm_open_streams').series()
    this.#reserved = new CounterFamily(memory, 'edge_llm_tokens_reserved_total')
    this.#used = new CounterFamily(memory, 'edge_llm_tokens_used_total')
    this.#givenBack = new CounterFamily(memory, 'edge_llm_tokens_given_back_total')
    this.#overdrawn = new CounterFamily(memory, 'edge_llm_tokens_overdrawn_total')
    this.#settlements = new CounterFamily(memory, 'edge_llm_settlements_total')
    this.#notUnderstood = new CounterFamily(memory, 'edge_llm_not_understood_total')
    this.#truncations = new CounterFamily(memory, 'edge_llm_truncations_total')
    this.#wouldTruncate = new CounterFamily(memory, 'edge_llm_would_truncate_total')
    this.#growth = new CounterFamily(memory, 'edge_llm_growth_total')
    const estimates = new Histogram(memory, 'edge_llm_estimate_ratio')
    this.#estimates = { prompt: estimates.series('prompt'), completion: estimates.series('completion') }
  }

  countReserved(rule: PlanRule, tokens: number): void {
    series(this.#reserved, rule).count += tokens
  }

  countUsed(rule: PlanRule, reserved: number, used: number): void {
    series(this.#used, rule).count += used
    if (used < reserved) series(this.#givenBack, rule).count += reserved - used
    if (used > reserved) series(this.#overdrawn, rule).count += used - reserved
  }

  countSettlement(end: string): void {
    this.#settlements.series(end).count++
  }

  countNotUnderstood({ id }: PlanPolicy): void {
    this.#notUnderstood.series(id).count++
  }

  countTruncation({ policy, name }: PlanRule, cause: TruncationCause): void {
    this.#truncations.series(policy.id, name, cause).count++
  }

  countWouldTruncate({ policy, name }: PlanRule, cause: TruncationCause): void {
    this.#wouldTruncate.series(policy.id, name, cause).count++
  }

  countGrowth({ policy, name }: PlanRule, outcome: string): void {
    this.#growth.series(policy.id, name, outcome).count++
  }

  /** Observes an estimate as a fraction of the provider's count. A count of zero is ignored. */
  compareEstimate(kind: 'prompt' | 'completion', estimate: number, counted: number): void {
    if (counted > 0) this.#estimates[kind].observe(estimate / counted)
  }
}

function series(family: CounterFamily, rule: PlanRule): Series {
  return family.series(rule.policy.id, rule.name)
}

/** Metrics of budgets of money, in units of the currency. */
export class CostMetrics {
  readonly #reserved: MoneyFamily
  readonly #spent: MoneyFamily
  readonly #unlisted: CounterFamily

  constructor(memory: MetricMemory) {
    this.#reserved = new MoneyFamily(memory, 'edge_cost_reserved_total')
    this.#spent = new MoneyFamily(memory, 'edge_cost_spent_total')
    this.#unlisted = new CounterFamily(memory, 'edge_cost_unlisted_models_total')
  }

  /** `nano` is an amount in billionths, which money is counted in. */
  countReserved(rule: PlanRule, nano: number): void {
    this.#reserved.add(rule.policy.id, rule.name, nano)
  }

  countUsed(rule: PlanRule, _reserved: number, nano: number): void {
    this.#spent.add(rule.policy.id, rule.name, nano)
  }

  countUnlistedModel(rule: PlanRule): void {
    series(this.#unlisted, rule).count++
  }
}

/** Sums of money by policy and rule. They are kept in whole billionths and shown in units, so that a sum is exact to the billionth however many amounts it has. */
export class MoneyFamily {
  readonly #family: CounterFamily
  readonly #sums = new Map<Series, number>()

  constructor(memory: MetricMemory, name: MetricName) {
    this.#family = new CounterFamily(memory, name)
  }

  add(policy: string, rule: string, nano: number): void {
    this.#set(this.#family.series(policy, rule), nano)
  }

  /** Sets a gauge to 0. */
  clear(policy: string, rule: string): void {
    const series = this.#family.series(policy, rule)
    this.#set(series, -this.#sumOf(series))
  }

  #sumOf(series: Series): number {
    // An earlier worker may have counted in the same cell.
    return this.#sums.get(series) ?? nanoOfUnits(series.count)
  }

  #set(series: Series, change: number): void {
    const before = this.#sumOf(series)
    this.#sums.set(series, before + change)
    const shown = before / NANO
    const next = (before + change) / NANO
    // The cell of all series that found no room belongs to others, too.
    if (series.count === shown) series.count = next
    else series.count += next - shown
  }
}

/** Returns billionths, for a sum that was kept in them. */
export function nanoOfUnits(units: number): number {
  return Math.round(units * NANO)
}

/** Metrics of what requests in flight have reserved. A request costs a few additions when it begins, when its reservation grows, and when it ends. */
export class InFlightMetrics {
  readonly #memory: MetricMemory
  /** By unit, policy and rule, so that a rule has one sum across bundles. */
  readonly #sums = new Map<string, RuleSums>()
  readonly #sumsByRule = new WeakMap<PlanRule, RuleSums>()

  constructor(memory: MetricMemory) {
    this.#memory = memory
  }

  /** Counts a request until its end. `amount` is in the units of the rule's counter. */
  open(rule: PlanRule, amount: number, isGrowing: boolean): ReservedRequest {
    let sums = this.#sumsByRule.get(rule)
    if (sums === undefined) {
      sums = this.#sumsOf(rule)
      this.#sumsByRule.set(rule, sums)
    }
    const opened = new ReservedRequest(sums, isGrowing)
    opened.add(amount)
    return opened
  }

  #sumsOf(rule: PlanRule): RuleSums {
    const isMoney = rule.source.algorithm === 'cost_budget'
    const key = JSON.stringify([isMoney, rule.policy.id, rule.name])
    const known = this.#sums.get(key)
    if (known !== undefined) return known
    const requests = new CounterFamily(this.#memory, 'edge_llm_reservations_in_flight')
    const amounts = new CounterFamily(this.#memory, isMoney ? 'edge_cost_in_flight' : 'edge_llm_tokens_in_flight')
    const perUnit = isMoney ? NANO : 1
    const sumOf = (reservation: string): ReservedSum =>
      new ReservedSum(
        requests.series(rule.policy.id, rule.name, reservation),
        amounts.series(rule.policy.id, rule.name, reservation),
        perUnit,
      )
    const sums = { whole: sumOf('whole'), growing: sumOf('growing') }
    this.#sums.set(key, sums)
    return sums
  }
}

interface RuleSums {
  readonly whole: ReservedSum
  readonly growing: ReservedSum
}

/** One rule's reservation for one request in flight. */
export class ReservedRequest {
  readonly #sums: RuleSums
  /** Undefined when the request is over. */
  #sum: ReservedSum | undefined
  #amount = 0

  constructor(sums: RuleSums, isGrowing: boolean) {
    this.#sums = sums
    this.#sum = isGrowing ? sums.growing : sums.whole
    this.#sum.add(1, 0)
  }

  /** Has no effect after the end: a grant may be heard of a moment later. */
  add(amount: number): void {
    this.#amount += amount
    this.#sum?.add(0, amount)
  }

  /** Counts it as one that does not grow any more. */
  stopGrowing(): void {
    if (this.#sum === undefined) return
    this.#sum.add(-1, -this.#amount)
    this.#sum = this.#sums.whole
    this.#sum.add(1, this.#amount)
  }

  close(): void {
    this.#sum?.add(-1, -this.#amount)
    this.#sum = undefined
  }
}

/** A sum in the counter's own units. These are whole numbers, so it is exactly 0 when nothing is in flight. */
class ReservedSum {
  readonly #requestSeries: Series
  readonly #amountSeries: Series
  readonly #perUnit: number
  #requests = 0
  #amount = 0

  constructor(requestSeries: Series, amountSeries: Series, perUnit: number) {
    this.#requestSeries = requestSeries
    this.#amountSeries = amountSeries
    this.#perUnit = perUnit
  }

  add(requests: number, amount: number): void {
    this.#requests += requests
    this.#amount += amount
    this.#requestSeries.measure(this.#requests)
    this.#amountSeries.measure(this.#amount / this.#perUnit)
  }
}

/** Metrics of requests in flight that concurrency rules count. */
export class HoldMetrics {
  readonly open: Series
  readonly #renewals: CounterFamily

  constructor(memory: MetricMemory) {
    this.open = new CounterFamily(memory, 'edge_proxy_open_holds').series()
    this.#renewals = new CounterFamily(memory, 'edge_hold_renewals_total')
  }

  countRenewal(result: 'renewed' | 'late' | 'failed'): void {
    this.#renewals.series(result).count++
  }
}
