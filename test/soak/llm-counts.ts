import type { Metrics } from '../support/service/metrics.ts'
import type { BudgetCaller, Tolerance } from './budget-caller.ts'
import type { EdgeProcess } from './edge-process.ts'
import type { Findings } from './findings.ts'
import { MAX_COMPLETION } from './llm-play.ts'
import type { PlainCaller } from './plain-load.ts'
import { DATA_LOSSES, REDIS_TROUBLES } from './redis-trouble.ts'

/** The longest prompt, and what a rule reserves beside it. */
const MAX_RESERVATION = 40 + MAX_COMPLETION
const RULE = '{policy="llm",rule="budget"}'

export interface LlmRoundResult {
  readonly budgets: readonly BudgetCaller[]
  /** Callers of other limits. */
  readonly others: readonly Pick<PlainCaller, 'seen'>[]
  /** What the budgets say that they have given out. */
  readonly spent: number
  readonly mayBeLost: boolean
  readonly hadFault: boolean
  readonly tolerance: Tolerance
}

/** What the metrics of a proxy counted in a round, to be held against what clients saw and what budgets say. */
export class LlmCounts {
  readonly #edge: EdgeProcess
  readonly #before: Metrics
  readonly #life: number

  private constructor(edge: EdgeProcess, before: Metrics) {
    this.#edge = edge
    this.#before = before
    this.#life = edge.lives
  }

  static async from(edge: EdgeProcess): Promise<LlmCounts> {
    return new LlmCounts(edge, await edge.metrics())
  }

  /**
   * `lostTokens` may have gone to nobody; `unpaidTokens` may have been used and not charged.
   *
   * `crossedTokens` may have gone to nobody for each request that a caller can have under way, when Redis has lost its data. A take carries what the
   * instance has spent by its own count when the take is sent; if it is the first call that finds no record, it begins the record with that. A settlement
   * that finds no record gives nothing back. So what goes to nobody is exactly what those settlements give back that are sent after such a take, on the
   * connection of another worker, and reach Redis before it (src/store/redis/fleet-store-forgotten.test.ts). They are settlements of requests that were
   * under way when the take was sent, or whose client had just seen the end: at most one for each lane of a caller, and each gives back at most what it
   * had reserved. Of a settlement that is sent before the take, nothing is lost, because the own count has it already. If Redis loses its data again, the
   * record is begun with the own count again, which is exact: only the last loss counts.
   */
  async doubts(trouble: string): Promise<{ hadFault: boolean; lostTokens: number; unpaidTokens: number; crossedTokens: number }> {
    const counted = await this.#counted()
    const hadFault = REDIS_TROUBLES.includes(trouble) || counted('edge_redis_errors_total') > 0
    // A worker that dies takes along what it was about to tell Redis, of each caller who sends one request at a time one settlement.
    const doubts = counted('edge_redis_doubts_total') + (trouble === 'worker death' && counted('edge_redis_answers_total') > 0 ? 1 : 0)
    const hasDoubt = counted('edge_redis_doubts_total{what="settlement"}') > 0
    return {
      hadFault,
      lostTokens: doubts * MAX_RESERVATION,
      crossedTokens: DATA_LOSSES.includes(trouble) ? MAX_RESERVATION : 0,
      unpaidTokens: hasDoubt ? counted(`edge_llm_tokens_overdrawn_total${RULE}`) : 0,
    }
  }

  async check(findings: Findings, { budgets, others, spent, mayBeLost, hadFault, tolerance }: LlmRoundResult): Promise<void> {
    if (this.#edge.lives !== this.#life) return
    const counted = await this.#counted()
    const seen = [...budgets, ...others].map((caller) => caller.seen)
    const sum = (key: keyof BudgetCaller['seen']): number => seen.reduce((total, counts) => total + counts[key], 0)
    // Tunnels have no rule and no policy.
    const allowed =
      counted('edge_decisions_total{action="allow"') -
      counted('edge_decisions_total{action="allow",reason="all_rules_passed",policy="none"')
    findings.within('edge_decisions_total{action="allow"}', allowed, sum('admitted'), sum('admitted') + sum('unknown'))
    const rejected = counted('edge_decisions_total{action="reject"')
    findings.within('edge_decisions_total{action="reject"}', rejected, sum('rejected'), sum('rejected') + sum('unknown'))
    findings.equal('edge_store_forced_evictions_total', counted('edge_store_forced_evictions_total'), 0)
    this.#checkSettlements(findings, counted, mayBeLost)
    if (mayBeLost || budgets.some(({ isAtLimit }) => isAtLimit)) return
    const used = counted(`edge_llm_tokens_used_total${RULE}`)
    if (hadFault) findings.atMost('edge_llm_tokens_used_total, by what is spent of all budgets', used - tolerance.unpaid, spent)
    else findings.equal('tokens spent of all budgets, by edge_llm_tokens_used_total', spent, used)
  }

  #checkSettlements(findings: Findings, counted: Counted, mayBeLost: boolean): void {
    const settlements = counted('edge_llm_settlements_total')
    const isLlm = ['llm', 'llm in shadow'].map((id) => counted(`edge_decisions_total{action="allow",`, `policy="${id}"`))
    const admitted = isLlm.reduce((sum, count) => sum + count, 0)
    if (mayBeLost) findings.atMost('edge_llm_settlements_total', settlements, admitted)
    else findings.equal('edge_llm_settlements_total, one for each admitted request', settlements, admitted)
    for (const rule of mayBeLost ? [] : [RULE, '{policy="llm in shadow",rule="small"}']) {
      const [reserved, used, givenBack, overdrawn] = ['reserved', 'used', 'given_back', 'overdrawn'].map((what) =>
        counted(`edge_llm_tokens_${what}_total${rule}`),
      )
      findings.equal(`edge_llm_tokens_used_total${rule}, reserved - given back + overdrawn`, used!, reserved! - givenBack! + overdrawn!)
    }
  }

  async #counted(): Promise<Counted> {
    const after = await this.#edge.metrics()
    const before = this.#edge.lives === this.#life ? this.#before : undefined
    return (start, part = '') => after.sum(start, part) - (before?.sum(start, part) ?? 0)
  }
}

type Counted = (start: string, part?: string) => number
