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
  readonly #decisions: SeriesOfPolicies
  readonly #rejects: SeriesOfPolicies
  readonly #wouldRejects: SeriesOfPolicies
  readonly #repeated: RepeatedNotes

  constructor(parts: RecentActivityParts) {
    const { memory, logger, nowMs, intervalMs = INTERVAL_MS } = parts
    this.#parts = parts
    this.#counts = new RecentCounts(memory, ['edge_decisions_total', 'edge_rejects_total', 'edge_would_reject_total'])
    // The last argument is the index of the policy among the metric's labels.
    this.#decisions = new SeriesOfPolicies(memory, 'edge_decisions_total', 2)
    this.#rejects = new SeriesOfPolicies(memory, 'edge_rejects_total', 0)
    this.#wouldRejects = new SeriesOfPolicies(memory, 'edge_would_reject_total', 0)
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
    const decisions = this.#decisions.read(this.#counts, nowMs)
    const rejects = this.#rejects.read(this.#counts, nowMs)
    const wouldRejects = this.#wouldRejects.read(this.#counts, nowMs)
    return policies.map((policy) => {
      const activity = new Activity()
      for (const { values, count } of decisions(policy)) activity[values[0] === 'allow' ? 'allowed' : 'rejected'] += count
      for (const { values, count } of rejects(policy)) activity.rule(values[1]!).rejected += count
      for (const { values, count } of wouldRejects(policy)) {
        activity.would_reject += count
        activity.rule(values[1]!).would_reject += count
      }
      const { allowed, rejected, would_reject, rules } = activity
      return { allowed, rejected, would_reject, rules }
    })
  }

  stop(): void {
    this.#repeated.stop()
  }
}

class Activity {
  allowed = 0
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

/** Finds the series of a metric that belong to a policy. The directory of series only ever grows. */
class SeriesOfPolicies {
  readonly #memory: MetricMemory
  readonly #name: MetricName
  readonly #label: number
  readonly #indexes = new Map<string, number[]>()
  #seen = 0

  constructor(memory: MetricMemory, name: MetricName, label: number) {
    this.#memory = memory
    this.#name = name
    this.#label = label
  }

  /** Returns a lookup of a policy's series: their label values and what each has counted lately. */
  read(counts: RecentCounts, nowMs: number): (policy: string) => { readonly values: readonly string[]; readonly count: number }[] {
    const entries = this.#memory.entriesOf(this.#name)
    for (; this.#seen < entries.length; this.#seen++) {
      const policy = entries[this.#seen]!.values[this.#label]!
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
