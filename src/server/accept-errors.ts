import type { Logger } from 'pino'
import { Sampler } from './sampler.ts'

/** Connections that the system did not let us accept: too many open files, mostly. Told once a second for each reason. */
export class AcceptErrors {
  readonly #logger: Logger
  readonly #nowMs: () => number
  readonly #byReason = new Sampler<string>(new Map())

  constructor(logger: Logger, nowMs: () => number) {
    this.#logger = logger
    this.#nowMs = nowMs
  }

  note(error: NodeJS.ErrnoException): void {
    const reason = error.code ?? error.message
    const unlogged = this.#byReason.admit(reason, this.#nowMs())
    if (unlogged !== undefined) this.#logger.error({ event: 'accept_failed', reason, unlogged }, 'a connection could not be accepted')
  }
}
