import type { ProblemJson } from '../admin/api/instance-types.ts'

/** A line of the log: its event, its `msg` and its other fields. */
export interface LogEvent {
  readonly event: string
  readonly [field: string]: unknown
}

interface ProblemKind {
  /** The field that tells problems of one kind apart; undefined if there can be only one. */
  readonly by?: string
  /** Events that end the problem; empty if only a restart does. If undefined, it passes if it is not reported again for a while. */
  readonly endedBy?: readonly string[]
  /** Whether each worker reports the problem for itself, with its number in the field `worker`. */
  readonly isOfWorker?: true
  /** How long the problem is shown after its last report, if it may pass by itself. */
  readonly passesMs?: number
}

const BUNDLE_GOOD = ['bundle_applied', 'bundle_unchanged']

/** Events that report a problem. Those that give advice or report something finished are not among them. */
const KINDS: ReadonlyMap<string, ProblemKind> = new Map(
  Object.entries<ProblemKind>({
    unknown_variable: { by: 'variable', endedBy: [] },
    bundle_refused: { endedBy: [...BUNDLE_GOOD, 'bundle_unreadable'] },
    bundle_unreadable: { endedBy: [...BUNDLE_GOOD, 'bundle_refused'] },
    credentials_open: { endedBy: ['bundle_applied'] },
    bundle_not_cached: { endedBy: ['bundle_cached_again'] },
    ip_file_refused: { by: 'path', endedBy: ['ip_file_loaded'] },
    key_set_failed: { by: 'issuer', endedBy: ['key_set_loaded', 'key_set_dropped'] },
    secret_failed: { by: 'secret', endedBy: ['secret_loaded', 'secret_dropped'] },
    tls_failed: { by: 'file', endedBy: ['tls_reloaded'] },
    keys_tail_dropped: { endedBy: ['keys_tail_acknowledged'] },
    state_not_saved: { endedBy: ['state_saved_again'] },
    redis_unavailable: { by: 'node', endedBy: ['redis_available'], isOfWorker: true },
    control_not_shared: { endedBy: ['control_shared'] },
    logouts_not_shared: { endedBy: ['logouts_shared'], isOfWorker: true },
    worker_died: { by: 'worker', endedBy: ['worker_replaced'] },
    worker_cannot_listen: { by: 'worker', endedBy: ['worker_replaced'] },
    worker_not_replaced: { by: 'worker', endedBy: ['worker_replaced'] },
    events_not_posted: { endedBy: ['events_posted_again'] },
    decision_log_not_written: { endedBy: ['decision_log_written_again'] },
    decision_log_dropped: {},
    usage_not_written: { endedBy: ['usage_written_again'] },
    usage_lines_lost: {},
    usage_upkeep_failed: { endedBy: ['usage_upkeep_resumed'] },
    traces_not_sent: { endedBy: ['traces_sent_again'], isOfWorker: true },
    overrides_unreadable: {},
    counters_evicted: {},
    no_address: {},
    accept_failed: { by: 'reason' },
    backend_failed: { by: 'backend', endedBy: ['backend_recovered'], passesMs: 20_000 },
    settlement_failed: {},
    hold_not_renewed: {},
    hold_not_released: {},
    reservation_not_issued: { by: 'reason' },
    internal_error: {},
    admin_failed: {},
  }),
)

const ENDED_BY = new Map<string, string[]>()
for (const [code, { endedBy = [] }] of KINDS) {
  for (const event of endedBy) ENDED_BY.set(event, [...(ENDED_BY.get(event) ?? []), code])
}

/** The events that report a problem. */
export const PROBLEM_CODES: ReadonlySet<string> = new Set(KINDS.keys())

/** The events that `Problems` must see: those that report problems and those that end them. */
export const PROBLEM_EVENTS: ReadonlySet<string> = new Set([...PROBLEM_CODES, ...ENDED_BY.keys()])

/** How long a problem without an ending event is shown after its last report. It exceeds the pause between two reports of any event. */
const PASSES_MS = 2 * 60_000
/** More than a service can have; problems beyond this are not shown. */
const MAX_REPORTS = 200
const MAX_MESSAGE_CHARACTERS = 500

interface Report {
  readonly code: string
  readonly subject: string
  /** The reporting worker if `isOfWorker`; else 0. */
  readonly worker: number
  readonly sinceMs: number
  lastMs: number
  message: string
}

/** Current problems, gathered from the log events of all threads. */
export class Problems {
  readonly #reports = new Map<string, Report>()

  note(line: LogEvent, wallMs: number): void {
    for (const code of ENDED_BY.get(line.event) ?? []) this.#reports.delete(keyOf(code, line))
    if (line.event === 'worker_died') this.#forgetWorker(line['worker'])
    const kind = KINDS.get(line.event)
    if (kind === undefined) return
    const key = keyOf(line.event, line)
    const known = this.#reports.get(key)
    const isOver = known === undefined || hasPassed(known, wallMs)
    if (isOver && this.#reports.size >= MAX_REPORTS) this.#removePassed(wallMs)
    if (isOver && this.#reports.size >= MAX_REPORTS) return
    const { subject, worker } = identityOf(line.event, line)
    const sinceMs = isOver ? wallMs : known.sinceMs
    this.#reports.set(key, { code: line.event, subject, worker, sinceMs, lastMs: wallMs, message: messageOf(line) })
  }

  /** Lists problems, the oldest first. If several workers report the same one, it is listed once, since its first report. */
  list(wallMs: number): ProblemJson[] {
    this.#removePassed(wallMs)
    const first = new Map<string, Report>()
    for (const report of this.#reports.values()) {
      const key = JSON.stringify([report.code, report.subject])
      const other = first.get(key)
      if (other === undefined || report.sinceMs < other.sinceMs) first.set(key, report)
    }
    return [...first.values()]
      .sort((a, b) => a.sinceMs - b.sinceMs)
      .map(({ code, message, sinceMs }) => ({ code, message, since: new Date(sinceMs).toISOString(), details: [], details_in_all: 0 }))
  }

  /** The worker's own reports end with it, because its connections are gone. */
  #forgetWorker(worker: unknown): void {
    for (const [key, report] of this.#reports) if (report.worker === worker) this.#reports.delete(key)
  }

  #removePassed(wallMs: number): void {
    for (const [key, report] of this.#reports) if (hasPassed(report, wallMs)) this.#reports.delete(key)
  }
}

function hasPassed({ code, lastMs }: Report, wallMs: number): boolean {
  const { endedBy, passesMs = endedBy === undefined ? PASSES_MS : undefined } = KINDS.get(code)!
  return passesMs !== undefined && wallMs - lastMs > passesMs
}

function keyOf(code: string, line: LogEvent): string {
  const { subject, worker } = identityOf(code, line)
  return JSON.stringify([code, subject, worker])
}

function identityOf(code: string, line: LogEvent): { subject: string; worker: number } {
  const { by, isOfWorker } = KINDS.get(code)!
  const worker = isOfWorker === true ? Number(line['worker'] ?? 0) : 0
  return { subject: by === undefined ? '' : String(line[by]), worker }
}

/** Returns the line's message and its reason. */
function messageOf(line: LogEvent): string {
  const { msg = line.event, reason, problem, problems, error, err } = line
  const [firstProblem] = Array.isArray(problems) ? (problems as unknown[]) : []
  const cause = reason ?? problem ?? firstProblem ?? textOf(error) ?? textOf(err)
  const text = cause === undefined ? String(msg) : `${String(msg)}: ${String(cause)}`
  return text.length <= MAX_MESSAGE_CHARACTERS ? text : `${text.slice(0, MAX_MESSAGE_CHARACTERS - 1)}…`
}

function textOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
}
