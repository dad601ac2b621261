import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A client that half-closes and is answered within this time never hears a question. */
const FIRST_PROBE_MS = 250
const PROBE_MS = 100
/** How long a half-closed client waits for the rest of an answer that pauses and in which nothing can be asked. */
const QUIET_MS = 2500
const COMMENT = ':\n\n'

/**
 * Finds out whether a client that has ended its side of the connection is still there. Its end alone does not tell: one
 * that only half-closed waits for its answer, one that is gone looks the same, and its backend call must not run on. So it
 * is asked by bytes that mean nothing (100 Continue before the answer, a comment in a stream of events): who is gone answers
 * them with a reset, and the bytes after that fail.
 */
export class DepartureWatch {
  readonly #socket: Socket
  readonly #res: ServerResponse
  #timer: NodeJS.Timeout
  /** Since the answer's head is there: whether it is a stream at the end of an event, where a comment may come. */
  #isBetweenEvents: (() => boolean) | undefined
  #probes = 0
  #bytesWritten = 0

  /** To be made when the client has ended its side. */
  constructor(socket: Socket, res: ServerResponse, isBetweenEvents: (() => boolean) | undefined) {
    this.#socket = socket
    this.#res = res
    this.#isBetweenEvents = isBetweenEvents
    this.#timer = this.#wait(FIRST_PROBE_MS)
  }

  onHead(isBetweenEvents: () => boolean): void {
    this.#isBetweenEvents = isBetweenEvents
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #wait(ms: number): NodeJS.Timeout {
    const canAsk = this.#isBetweenEvents === undefined || this.#isBetweenEvents()
    this.#bytesWritten = this.#socket.bytesWritten
    return setTimeout(() => this.#probe(), canAsk ? ms : QUIET_MS)
  }

  #probe(): void {
    if (this.#isBetweenEvents === undefined) {
      if (this.#res.req.httpVersion === '1.1' && this.#res.socket !== null) this.#res.writeContinue()
    } else if (this.#isBetweenEvents()) this.#res.write(COMMENT)
    // Bytes that flow, or wait for a slow reader, are probes enough; where there are none, nobody waits in earnest.
    else if (this.#socket.bytesWritten === this.#bytesWritten && this.#socket.writableLength === 0) return void this.#socket.destroy()
    // The first of a pair asks, the second finds out.
    this.#timer = this.#wait(++this.#probes % 2 === 1 ? PROBE_MS : QUIET_MS)
  }
}
