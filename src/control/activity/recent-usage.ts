import type { Logger } from 'pino'
import type { RuleUsage, UsageReport, UsageRuleName } from '../../admin/endpoints/usage-endpoint.ts'
import type { MetricName } from '../../telemetry/metrics/catalogue.ts'
import { RecentCounts } from '../../telemetry/metrics/metric-growth.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../../time/clock.ts'
import { busiest } from './metric-look.ts'
import { RepeatedNotes } from './recent-activity.ts'

/** A rule counts in only one of these. */
const METRICS = { tokens: 'edge_llm_tokens_used_total', money: 'edge_cost_spent_total' } as const satisfies Record<string, MetricName>
const RESERVED = { tokens: 'edge_llm_tokens_in_flight', money: 'edge_cost_in_flight' } as const satisfies Record<string, MetricName>
const REQUESTS = 'edge_llm_reservations_in_flight' satisfies MetricName
const INTERVAL_MS = 5000
const QUARTER_HOUR_MS = 15 * 60_000
/** Only every twelfth note, one a minute, is kept for the longer span, so that there are few of them. */
const NOTES_A_MINUTE = 12
const MOST = 100

export interface RecentUsageParts {
  readonly memory: MetricMemory
  readonly logger: Logger
  readonly clock: Clock
  readonly intervalMs?: number
}

/** Recent counts of rules for tokens or money, from the metrics of all threads. */
export class RecentUsage {
  readonly #parts: RecentUsageParts
  readonly #since: string
  readonly #minute: RecentCounts
  readonly #quarterHour: RecentCounts
  readonly #repeated: RepeatedNotes
  #notes = 0

  constructor(parts: RecentUsageParts) {
    const { memory, logger, clock, intervalMs = INTERVAL_MS } = parts
    this.#parts = parts
    this.#since = new Date(clock.wallMs()).toISOString()
    this.#minute = new RecentCounts(memory, Object.values(METRICS))
    this.#quarterHour = new RecentCounts(memory, Object.values(METRICS), QUARTER_HOUR_MS)
    this.#repeated = new RepeatedNotes({
      steps: () => this.#noteSteps(clock.nowMs()),
      intervalMs,
      logger,
      problem: 'recent usage could not be recorded',
    })
  }

  of(rules: readonly UsageRuleName[]): UsageReport {
    const tokens = [...this.#read('tokens')]
    const money = [...this.#read('money')]
    const policies = new Set(rules.map(({ policy }) => policy))
    const ofPolicies = [...tokens, ...money].filter(({ policy }) => policies.has(policy))
    const byName = new Map(ofPolicies.map((usage) => [keyOf(usage), usage]))
    return {
      since: this.#since,
      asked: rules.map((name) => byName.get(keyOf(name)) ?? { ...name, used: NOTHING, in_flight: NONE_IN_FLIGHT }),
      most: inTurn(busiest(tokens, MOST, usedOrReserved), busiest(money, MOST, usedOrReserved)),
    }
  }

  stop(): void {
    this.#repeated.stop()
  }

  *#read(unit: UsageRuleName['unit']): Generator<RuleUsage> {
    const { memory, clock } = this.#parts
    const metric = METRICS[unit]
    const lastMinute = this.#minute.since(metric, clock.nowMs())
    const last15Minutes = this.#quarterHour.since(metric, clock.nowMs())
    const inFlight = this.#inFlight(unit)
    for (const [index, { values, cell }] of memory.entriesOf(metric).entries()) {
      const name = { policy: values[0]!, rule: values[1]!, unit }
      const used = { last_minute: lastMinute(index), last_15_minutes: last15Minutes(index), since_start: memory.sum(cell) }
      const reserved = inFlight.get(keyOf(name))
      inFlight.delete(keyOf(name))
      yield { ...name, used, in_flight: reserved?.in_flight ?? NONE_IN_FLIGHT }
    }
    // Nothing of these has been settled yet.
    yield* inFlight.values()
  }

  /** Reads what rules have in flight; those with nothing in flight are left out. */
  #inFlight(unit: UsageRuleName['unit']): Map<string, RuleUsage> {
    const { memory } = this.#parts
    const requests = new Map(memory.entriesOf(REQUESTS).map(({ values, cell }) => [JSON.stringify(values), cell]))
    const found = new Map<string, RuleUsage>()
    for (const { values, cell } of memory.entriesOf(RESERVED[unit])) {
      const [policy, rule, reservation] = values as [string, string, string]
      const part = { requests: memory.sum(requests.get(JSON.stringify(values))!), reserved: memory.sum(cell) }
      if (part.requests <= 0) continue
      const name = { policy, rule, unit }
      const before = found.get(keyOf(name))?.in_flight ?? NONE_IN_FLIGHT
      const in_flight = {
        requests: before.requests + part.requests,
        reserved: before.reserved + part.reserved,
        growing: reservation === 'growing' ? part : before.growing,
      }
      found.set(keyOf(name), { ...name, used: NOTHING, in_flight })
    }
    return found
  }

  *#noteSteps(nowMs: number): Generator<void> {
    yield* this.#minute.noteSteps(nowMs)
    if (this.#notes++ % NOTES_A_MINUTE === 0) yield* this.#quarterHour.noteSteps(nowMs)
  }
}

const NOTHING = { last_minute: 0, last_15_minutes: 0, since_start: 0 }

const NONE_IN_FLIGHT = { requests: 0, reserved: 0, growing: { requests: 0, reserved: 0 } }

function usedOrReserved({ used, in_flight }: RuleUsage): number {
  return used.last_15_minutes + in_flight.reserved
}

/** Interleaves two lists: the first items of both, then the second items, and so on. */
function inTurn<Item>(some: readonly Item[], others: readonly Item[]): Item[] {
  const count = Math.max(some.length, others.length)
  return Array.from({ length: count }, (_, i) => [...some.slice(i, i + 1), ...others.slice(i, i + 1)]).flat()
}

function keyOf({ policy, rule, unit }: UsageRuleName): string {
  return JSON.stringify([policy, rule, unit])
}
