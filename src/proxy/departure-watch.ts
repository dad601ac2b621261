import type { Downstream } from './downstream.ts'

/** A client that half-closes and gets its response within this time is never probed. */
const FIRST_PROBE_MS = 250
const PROBE_MS = 100
/** How long a half-closed client waits for the rest of a response that pauses and in which no probe can be sent. */
const QUIET_MS = 2500
const COMMENT = ':\n\n'

/**
 * Finds out whether a client that has ended its side of the connection is still there. Its end alone does not tell: one
 * that only half-closed waits for its response, one that is gone looks the same, and its backend call must not run on. So it
 * is probed by bytes that mean nothing (100 Continue before the response, a comment in a stream of events): a client that is gone
 * replies with a reset, and the bytes after that fail.
 */
export class DepartureWatch {
  readonly #downstream: Downstream
  /** Whether the response is a stream at the end of an event, where a comment may come. */
  readonly #isBetweenEvents: () => boolean
  #timer: NodeJS.Timeout
  #probes = 0
  #writtenBytes = 0

  /** To be made when the client has ended its side. */
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
    // Bytes that flow, or wait for a slow reader, are probes enough; where there are none, nobody waits in earnest.
    else if (downstream.writtenBytes === this.#writtenBytes && downstream.unsentBytes === 0) return downstream.cut()
    // The first of a pair asks, the second finds out.
    this.#timer = this.#wait(++this.#probes % 2 === 1 ? PROBE_MS : QUIET_MS)
  }
}
