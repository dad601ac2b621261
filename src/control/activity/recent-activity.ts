import type { Logger } from 'pino'
import type { PolicyActivity } from '../../admin/endpoints/policies-endpoint.ts'
import type { MetricName } from '../../telemetry/metrics/catalogue.ts'
import { RecentCounts } from '../../telemetry/metrics/metric-growth.ts'
import type { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import { runInSlices } from '../../time/slices.ts'

const INTERVAL_MS = 5000

export interface RecentActivityParts {
  readonly memory: MetricMemory
  readonly logger: Logger
  readonly nowMs: () => number
  readonly intervalMs?: number
}

/** Decisions of policies and rules in the last minute, from the metrics of all threads. */
export class RecentActivity {
  readonly #parts: RecentActivityParts
  readonly #counts: RecentCounts
  readonly #covered: SeriesOfPolicies
  readonly #rejects: SeriesOfPolicies
  readonly #wouldRejects: SeriesOfPolicies
  readonly #repeated: RepeatedNotes

  constructor(parts: RecentActivityParts) {
    const { memory, logger, nowMs, intervalMs = INTERVAL_MS } = parts
    this.#parts = parts
    this.#counts = new RecentCounts(memory, ['edge_policy_requests_total', 'edge_rejects_total', 'edge_would_reject_total'])
    this.#covered = new SeriesOfPolicies(memory, 'edge_policy_requests_total')
    this.#rejects = new SeriesOfPolicies(memory, 'edge_rejects_total')
    this.#wouldRejects = new SeriesOfPolicies(memory, 'edge_would_reject_total')
    this.#repeated = new RepeatedNotes({
      steps: () => this.#counts.noteSteps(nowMs()),
      intervalMs,
      logger,
      problem: 'recent decisions could not be recorded',
    })
  }

  /** Returns the activity of each policy, in the order of the argument. */
  of(policies: readonly string[]): PolicyActivity[] {
    const nowMs = this.#parts.nowMs()
    const covered = this.#covered.read(this.#counts, nowMs)
    const rejects = this.#rejects.read(this.#counts, nowMs)
    const wouldRejects = this.#wouldRejects.read(this.#counts, nowMs)
    return policies.map((policy) => {
      const activity = new Activity()
      for (const { count } of covered(policy)) activity.covered += count
      for (const { values, count } of rejects(policy)) {
        activity.rejected += count
        activity.rule(values[1]!).rejected += count
      }
      for (const { values, count } of wouldRejects(policy)) {
        activity.would_reject += count
        activity.rule(values[1]!).would_reject += count
      }
      const { covered: asked, rejected, would_reject, rules } = activity
      // A worker counts a reject a moment before or after that the policy covered the request.
      return { allowed: Math.max(0, asked - rejected), rejected, would_reject, rules }
    })
  }

  stop(): void {
    this.#repeated.stop()
  }
}

class Activity {
  covered = 0
  rejected = 0
  would_reject = 0
  readonly rules = new Map<string, { rejected: number; would_reject: number }>()

  rule(name: string): { rejected: number; would_reject: number } {
    let rule = this.rules.get(name)
    if (rule === undefined) {
      rule = { rejected: 0, would_reject: 0 }
      this.rules.set(name, rule)
    }
    return rule
  }
}

/** Finds the series of a metric that belong to a policy, its first label. The directory of series only ever grows. */
class SeriesOfPolicies {
  readonly #memory: MetricMemory
  readonly #name: MetricName
  readonly #indexes = new Map<string, number[]>()
  #seen = 0

  constructor(memory: MetricMemory, name: MetricName) {
    this.#memory = memory
    this.#name = name
  }

  /** Returns a lookup of a policy's series: their label values and what each has counted lately. */
  read(counts: RecentCounts, nowMs: number): (policy: string) => { readonly values: readonly string[]; readonly count: number }[] {
    const entries = this.#memory.entriesOf(this.#name)
    for (; this.#seen < entries.length; this.#seen++) {
      const policy = entries[this.#seen]!.values[0]!
      const indexes = this.#indexes.get(policy)
      if (indexes === undefined) this.#indexes.set(policy, [this.#seen])
      else indexes.push(this.#seen)
    }
    const grown = counts.since(this.#name, nowMs)
    return (policy) => (this.#indexes.get(policy) ?? []).map((index) => ({ values: entries[index]!.values, count: grown(index) }))
  }
}

export interface RepeatedNotesParts {
  /** Makes one note, a part at a time. */
  readonly steps: () => Generator<void>
  readonly intervalMs: number
  readonly logger: Logger
  /** Log message for a note that fails. */
  readonly problem: string
}

/** Makes a note at an interval, never two at once. A failure is logged, and the next interval tries again. */
export class RepeatedNotes {
  readonly #parts: RepeatedNotesParts
  readonly #timer: NodeJS.Timeout
  #isNoting = false

  constructor(parts: RepeatedNotesParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#note(), parts.intervalMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #note(): void {
    if (this.#isNoting) return
    this.#isNoting = true
    const { steps, logger, problem } = this.#parts
    runInSlices({
      steps: steps(),
      onDone: () => {
        this.#isNoting = false
      },
      onError: (err) => {
        this.#isNoting = false
        logger.error({ event: 'internal_error', err }, problem)
      },
    })
  }
}
