import type { FleetLimit } from '../support/fleet/fleet-limit.ts'
import type { Metrics } from '../support/service/metrics.ts'
import type { EdgeProcess } from './edge-process.ts'
import type { Findings } from './findings.ts'
import type { Team } from './teams.ts'

/** What the metrics of some instances counted in a round, to be held against what clients saw. */
export class DecisionCounts {
  readonly #edges: readonly EdgeProcess[]
  readonly #before: readonly Metrics[]
  /** Of all instances together: counters of a process that ended in between count for nothing. */
  readonly life: number
  readonly #seenBefore = new Map<Team, Team['seen']>()

  private constructor(edges: readonly EdgeProcess[], before: readonly Metrics[]) {
    this.#edges = edges
    this.#before = before
    this.life = livesOf(edges)
  }

  static async from(...edges: readonly EdgeProcess[]): Promise<DecisionCounts> {
    return new DecisionCounts(edges, await Promise.all(edges.map((edge) => edge.metrics())))
  }

  /** Teams of an earlier round that will be asked again. */
  remember(teams: readonly Team[]): void {
    for (const team of teams) this.#seenBefore.set(team, team.seen)
  }

  async check(findings: Findings, teams: readonly Team[], limits: readonly FleetLimit[]): Promise<void> {
    if (livesOf(this.#edges) !== this.life) return
    const after = await Promise.all(this.#edges.map((edge) => edge.metrics()))
    const counted = (start: string, part = ''): number =>
      after.reduce((sum, metrics, i) => sum + metrics.sum(start, part) - this.#before[i]!.sum(start, part), 0)
    const seen = new Map(
      limits.map((limit) => [limit.name, { admitted: limit.count(200), rejected: limit.count(429), unknown: limit.count(undefined) }]),
    )
    for (const team of new Set([...teams, ...this.#seenBefore.keys()])) {
      const before = this.#seenBefore.get(team)
      const sum = seen.get(team.kind) ?? { admitted: 0, rejected: 0, unknown: 0 }
      for (const key of ['admitted', 'rejected', 'unknown'] as const) sum[key] += team.seen[key] - (before?.[key] ?? 0)
      seen.set(team.kind, sum)
    }
    for (const [policy, { admitted, rejected, unknown }] of seen) {
      const [allow, reject] = ['allow', 'reject'].map((action) => counted(`edge_decisions_total{action="${action}"`, `policy="${policy}`))
      findings.within(`edge_decisions_total{action="allow",policy="${policy}"}`, allow!, admitted, admitted + unknown)
      findings.within(`edge_decisions_total{action="reject",policy="${policy}"}`, reject!, rejected, rejected + unknown)
    }
    findings.equal('edge_store_forced_evictions_total', counted('edge_store_forced_evictions_total'), 0)
    findings.equal('edge_metrics_overflow_total', counted('edge_metrics_overflow_total'), 0)
  }
}

function livesOf(edges: readonly EdgeProcess[]): number {
  return edges.reduce((sum, { lives }) => sum + lives, 0)
}
