import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A client that half-closes and is answered within this time never hears a question. */
const FIRST_PROBE_MS = 250
const PROBE_MS = 100
/** How long a half-closed client waits for the rest of an answer in which nothing can be asked. */
const QUIET_MS = 10_000
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
  readonly #onEnd = (): void => this.#wait(FIRST_PROBE_MS)
  #timer: NodeJS.Timeout | undefined
  /** Since the answer's head is there: whether it is a stream at the end of an event, where a comment may come. */
  #isBetweenEvents: (() => boolean) | undefined
  #probes = 0
  #bytesWritten = 0

  constructor(socket: Socket, res: ServerResponse) {
    this.#socket = socket
    this.#res = res
    if (socket.readableEnded) this.#onEnd()
    else socket.once('end', this.#onEnd)
  }

  onHead(isBetweenEvents: () => boolean): void {
    this.#isBetweenEvents = isBetweenEvents
    this.#bytesWritten = this.#socket.bytesWritten
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#socket.off('end', this.#onEnd)
  }

  #wait(ms: number): void {
    const canAsk = this.#isBetweenEvents === undefined || this.#isBetweenEvents()
    this.#timer = setTimeout(() => this.#probe(), canAsk ? ms : QUIET_MS)
  }

  #probe(): void {
    if (this.#isBetweenEvents === undefined) {
      if (this.#res.req.httpVersion === '1.1' && this.#res.socket !== null) this.#res.writeContinue()
    } else if (this.#isBetweenEvents()) this.#res.write(COMMENT)
    else {
      // Bytes that flow are probes enough; where none do, nobody waits in earnest.
      if (this.#socket.bytesWritten === this.#bytesWritten) return void this.#res.destroy()
      this.#bytesWritten = this.#socket.bytesWritten
    }
    // The first of a pair asks, the second finds out.
    this.#wait(++this.#probes % 2 === 1 ? PROBE_MS : QUIET_MS)
  }
}
