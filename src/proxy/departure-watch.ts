import type { Downstream } from './downstream.ts'

/** A client that half-closes and gets its response within this time is never probed. */
const FIRST_PROBE_MS = 250
const PROBE_MS = 100
/** How long a response in which no probe can be sent may pause before its half-closed client is cut, and the time between pairs of probes. */
const QUIET_MS = 2500
const COMMENT = ':\n\n'

/**
 * Finds out whether a client that has ended its side of the connection is still there. The end alone does not tell: a client that only half-closed
 * waits for its response, but one that is gone looks the same, and its backend call must not go on. So the client is probed with bytes that mean
 * nothing (100 Continue before the response, a comment in an event stream): a client that is gone replies with a reset, and the bytes after that
 * fail.
 */
export class DepartureWatch {
  readonly #downstream: Downstream
  /** Whether the response is a stream between two events, where a comment is allowed. */
  readonly #isBetweenEvents: () => boolean
  #timer: NodeJS.Timeout
  #probes = 0
  #writtenBytes = 0

  /** To be created when the client has ended its side. */
  constructor(downstream: Downstream, isBetweenEvents: () => boolean) {
    this.#downstream = downstream
    this.#isBetweenEvents = isBetweenEvents
    this.#timer = this.#wait(FIRST_PROBE_MS)
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #wait(ms: number): NodeJS.Timeout {
    const canProbe = !this.#downstream.isHeadSent || this.#isBetweenEvents()
    this.#writtenBytes = this.#downstream.writtenBytes
    return setTimeout(() => this.#probe(), canProbe ? ms : QUIET_MS)
  }

  #probe(): void {
    const downstream = this.#downstream
    if (!downstream.isHeadSent) downstream.invite()
    else if (this.#isBetweenEvents()) downstream.write(COMMENT)
    // Bytes that flow, or wait for a slow reader, are probe enough. If there are none, the client is not worth waiting for.
    else if (downstream.writtenBytes === this.#writtenBytes && downstream.unsentBytes === 0) return downstream.cut()
    // The first probe of a pair provokes the reset, and the second one fails on it.
    this.#timer = this.#wait(++this.#probes % 2 === 1 ? PROBE_MS : QUIET_MS)
  }
}
