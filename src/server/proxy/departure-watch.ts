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
  #phase: 'waiting' | 'events' | 'body' = 'waiting'
  #probes = 0
  #bytesWritten = 0

  constructor(socket: Socket, res: ServerResponse) {
    this.#socket = socket
    this.#res = res
    if (socket.readableEnded) this.#onEnd()
    else socket.once('end', this.#onEnd)
  }

  /** The answer's head is there. Comments may come between whole events alone. */
  onHead(isBetweenEvents: boolean): void {
    this.#phase = isBetweenEvents ? 'events' : 'body'
    this.#bytesWritten = this.#socket.bytesWritten
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#socket.off('end', this.#onEnd)
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => this.#probe(), this.#phase === 'body' ? QUIET_MS : ms)
  }

  #probe(): void {
    if (this.#phase === 'events') this.#res.write(COMMENT)
    else if (this.#phase === 'body') {
      // Bytes that flow are probes enough; where none do, nobody waits in earnest.
      if (this.#socket.bytesWritten === this.#bytesWritten) return void this.#res.destroy()
      this.#bytesWritten = this.#socket.bytesWritten
    } else if (this.#res.req.httpVersion === '1.1' && this.#res.socket !== null) this.#res.writeContinue()
    // The first of a pair asks, the second finds out.
    this.#wait(++this.#probes % 2 === 1 ? PROBE_MS : QUIET_MS)
  }
}
