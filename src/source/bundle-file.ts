import type { Logger } from 'pino'
import { type BundleFormat, formatOf } from '../policy/parse.ts'
import { formatProblem, type Problem } from '../policy/problem.ts'
import type { BundleIntake } from './bundle-intake.ts'
import { WatchedFile } from './watched-file.ts'

/** Counts looks by their result. */
export interface ReloadCounter {
  series(result: 'applied' | 'refused' | 'unchanged' | 'unreadable'): { count: number }
}

// A bundle can be wrong in ten thousand places; the first ones tell what happened, `edge validate` tells the rest.
const LOGGED_PROBLEMS = 50

// Ten thousand policies are some 4 MB.
const MAX_BUNDLE_BYTES = 16 * 1024 * 1024

/** Offers a file's content to the intake, at the start and whenever it changes, and tells the operator what became of it. */
export class BundleFile {
  readonly #path: string
  readonly #format: BundleFormat
  readonly #intake: BundleIntake
  readonly #logger: Logger
  readonly #reloads: ReloadCounter
  readonly #file: WatchedFile

  constructor(path: string, intake: BundleIntake, logger: Logger, reloads: ReloadCounter) {
    this.#path = path
    this.#format = formatOf(path)
    this.#intake = intake
    this.#logger = logger
    this.#reloads = reloads
    this.#file = new WatchedFile(path, MAX_BUNDLE_BYTES, {
      onContent: (bytes) => this.#offer(bytes),
      onProblem: (error) => this.#cannotRead(error),
    })
  }

  start(): Promise<void> {
    return this.#file.start()
  }

  reload(): Promise<void> {
    return this.#file.reload()
  }

  stop(): void {
    this.#file.stop()
  }

  async #offer(bytes: Buffer): Promise<void> {
    const path = this.#path
    const taken = await this.#intake.offer(bytes, this.#format)
    this.#reloads.series(taken.result).count++
    if (taken.result === 'unchanged') {
      this.#logger.info({ event: 'bundle_unchanged', path }, 'bundle unchanged')
      return
    }
    if (taken.warnings.length > 0) {
      this.#logger.warn({ event: 'bundle_warnings', path, ...listed('warnings', taken.warnings) }, 'the bundle has warnings')
    }
    if (taken.result === 'applied') {
      const { version, hash } = taken.bundle
      this.#logger.info({ event: 'bundle_applied', path, version, hash, policies: taken.policyCount }, `bundle ${version} is active`)
    } else {
      const problems = { ...listed('problems', taken.problems), active_version: this.#intake.active?.version ?? null }
      this.#logger.error({ event: 'bundle_refused', path, ...problems }, `bundle refused; ${this.#whatHolds()}`)
    }
  }

  #cannotRead(error: Error): void {
    this.#reloads.series('unreadable').count++
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : error.message
    this.#logger.warn({ event: 'bundle_unreadable', path: this.#path, reason }, `bundle cannot be read; ${this.#whatHolds()}`)
  }

  #whatHolds(): string {
    const { active } = this.#intake
    return active === undefined ? 'the service is not ready until a good one appears' : `version ${active.version} stays active`
  }
}

function listed(name: string, problems: readonly Problem[]): Record<string, unknown> {
  const shown = problems.slice(0, LOGGED_PROBLEMS).map(formatProblem)
  return { [name]: shown, ...(problems.length > shown.length ? { [`${name}_in_all`]: problems.length } : {}) }
}
