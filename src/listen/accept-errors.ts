import type { Logger } from 'pino'
import { Sampler } from '../telemetry/sampler.ts'

/** Connections that could not be accepted, or for which there was no slot. Logged once a second for each reason. */
export class AcceptErrors {
  readonly #logger: Logger
  readonly #nowMs: () => number
  readonly #byReason = new Sampler<string>(new Map())

  constructor(logger: Logger, nowMs: () => number) {
    this.#logger = logger
    this.#nowMs = nowMs
  }

  /** The system's reason. */
  note(error: NodeJS.ErrnoException): void {
    const reason = error.code ?? error.message
    const unlogged = this.#byReason.admit(reason, this.#nowMs())
    if (unlogged !== undefined) this.#logger.error({ event: 'accept_failed', reason, unlogged }, 'a connection could not be accepted')
  }

  /** Ours: the listener has as many connections as descriptors allow. */
  noteFull(listener: string, max: number): void {
    const reason = 'too_many_connections'
    const unlogged = this.#byReason.admit(listener, this.#nowMs())
    if (unlogged === undefined) return
    this.#logger.error(
      { event: 'accept_failed', reason, port: listener, max, unlogged },
      'no more connections fit into the limit of open files',
    )
  }
}
