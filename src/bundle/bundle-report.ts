import type { Logger } from 'pino'
import type { BundleInfo } from '../policy/plan.ts'
import { formatProblem, type Problem } from '../text/problem.ts'
import type { IntakeResult, RefusedBundle } from './bundle-intake.ts'
import type { BundleLocation, Refusal } from './bundle-source.ts'

/** Counts polls by their result. */
interface ReloadCounter {
  series(result: 'applied' | 'refused' | 'unchanged' | 'unreadable'): { count: number }
}

export interface ReportParts {
  readonly logger: Logger
  readonly reloads: ReloadCounter
  readonly active: () => BundleInfo | undefined
}

// A bundle can be wrong in ten thousand places. The first ones show what happened, and `edge validate` lists the rest.
const LOGGED_PROBLEMS = 50

/** Reports to the operator what became of the bundles of one source. Every poll is counted; an unchanged result is not logged again. */
export class BundleReport {
  readonly location: BundleLocation
  readonly #parts: ReportParts
  /** The problem of the last poll, as a sentence about the source. */
  problem: string | undefined = 'it has not been read yet'
  /** Why the last poll's bundle was refused; undefined if it was not. */
  refusal: Refusal | undefined

  constructor(location: BundleLocation, parts: ReportParts) {
    this.location = location
    this.#parts = parts
  }

  taken(taken: IntakeResult, isLogged = true): void {
    const { logger, reloads, active } = this.#parts
    const { location } = this
    reloads.series(taken.result).count++
    this.problem = taken.result === 'refused' ? 'it was refused; the log says why' : undefined
    this.refusal = taken.result === 'refused' ? refusalOf(taken) : undefined
    if (!isLogged) return
    if (taken.result === 'unchanged') {
      logger.info({ event: 'bundle_unchanged', ...location }, 'bundle unchanged')
      return
    }
    if (taken.warnings.length > 0) {
      logger.warn({ event: 'bundle_warnings', ...location, ...listed('warnings', taken.warnings) }, 'the bundle has warnings')
    }
    if (taken.result === 'applied') {
      const { version, hash } = taken.bundle
      logger.info({ event: 'bundle_applied', ...location, version, hash, policies: taken.policyCount }, `bundle ${version} is active`)
      const open = taken.warnings.filter(({ isProblem }) => isProblem)
      // It is logged last, because a bundle that becomes active ends the problem of the one before.
      if (open.length > 0) logger.warn({ event: 'credentials_open', ...location, ...listed('problems', open) }, 'a credential is open')
    } else {
      const { hash } = taken
      const problems = { ...listed('problems', taken.problems), ...(hash && { hash }), active_version: active()?.version ?? null }
      logger.error({ event: 'bundle_refused', ...location, ...problems }, `bundle refused; ${this.#whatIsActive()}`)
    }
  }

  unreadable(error: Error, isLogged = true): void {
    const { logger, reloads } = this.#parts
    reloads.series('unreadable').count++
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : error.message
    this.problem = reason
    this.refusal = undefined
    if (!isLogged) return
    logger.warn({ event: 'bundle_unreadable', ...this.location, reason }, `bundle cannot be read; ${this.#whatIsActive()}`)
  }

  #whatIsActive(): string {
    const active = this.#parts.active()
    return active === undefined ? 'the service is not ready until a good one appears' : `version ${active.version} stays active`
  }
}

function refusalOf({ problems, version, hash }: RefusedBundle): Refusal {
  return { problems: problems.slice(0, LOGGED_PROBLEMS).map(formatProblem), problemsInAll: problems.length, version, hash }
}

function listed(name: string, problems: readonly Problem[]): Record<string, unknown> {
  const shown = problems.slice(0, LOGGED_PROBLEMS).map(formatProblem)
  return { [name]: shown, ...(problems.length > shown.length ? { [`${name}_in_all`]: problems.length } : {}) }
}
