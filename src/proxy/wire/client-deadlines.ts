import type { Socket } from 'node:net'
import type { FrontTimeouts } from '../../listen/wire-front.ts'
import { CLOSE_MS, LINGER_MS } from '../downstream.ts'
import type { WireBody } from './wire-body.ts'
import type { WireDownstream } from './wire-downstream.ts'

/** The time limits for a client. One sweep checks all connections, so that none needs a timer of its own. */
export class ClientDeadlines {
  readonly #socket: Socket
  readonly #body: WireBody
  readonly #downstream: WireDownstream
  readonly #stall: StallWatch
  /** When the current state began, or the current head. */
  #sinceMs = performance.now()
  #isFirstHead = true
  /** When the last piece of an incomplete head arrived. */
  #lastPieceMs = 0
  /** The response has been sent, and whatever still arrives is discarded. */
  #isLingering = false
  /** When the connection is closed even if the client still sends; 0 means never. */
  #cutAtMs = 0

  constructor(socket: Socket, body: WireBody, downstream: WireDownstream) {
    this.#socket = socket
    this.#body = body
    this.#downstream = downstream
    this.#stall = new StallWatch(socket)
  }

  /**
   * To be called when part of a head has arrived. `wasIdle`: it is the first part. The time for a connection's first head runs from the start of
   * the connection.
   */
  onPartOfHead(wasIdle: boolean, roughMs: number): void {
    this.#lastPieceMs = roughMs
    if (wasIdle) this.#sinceMs = performance.now()
  }

  onRequest(): void {
    this.#isFirstHead = false
  }

  /** To be called when the rest of the body is discarded from now on, for at most this long; 0 means no limit. */
  onBodyDropped(stallMs: number): void {
    this.#cutAtMs = stallMs > 0 ? performance.now() + stallMs : 0
  }

  onRefused(): void {
    this.#cutAtMs = performance.now() + CLOSE_MS
  }

  /** To be called when the request has been read and its response written, both to the end. */
  onComplete(roughMs: number): void {
    this.#cutAtMs = 0
    this.#isLingering = false
    this.#sinceMs = roughMs
  }

  /** To be called at every sweep. Returns 'head' if a head took too long, which gets a response, and 'other' if anything else did. */
  overdue(state: ClientState, nowMs: number, { headMs, idleMs, sweepMs }: FrontTimeouts): 'head' | 'other' | undefined {
    const waitedMs = nowMs - this.#sinceMs
    if (this.#cutAtMs > 0 && nowMs > this.#cutAtMs) return 'other'
    switch (state) {
      case 'silent':
        if (waitedMs > headMs) return 'other'
        break
      case 'head':
        if (waitedMs > headMs) return 'head'
        if (!this.#isFirstHead && nowMs - this.#lastPieceMs > idleMs) return 'other'
        break
      case 'idle':
        if (this.#socket.writableLength > 0) this.#sinceMs = nowMs
        else if (waitedMs > idleMs) return 'other'
        break
      case 'busy':
        if (this.#isSilent(nowMs - sweepMs)) return 'other'
        if (this.#body.isDropped) this.#linger(nowMs)
        break
      case 'closing':
        if (this.#cutAtMs === 0) this.#linger(nowMs)
    }
    const { stallMs } = this.#downstream
    const stalledMs = this.#stall.stalledMs(nowMs)
    return stallMs > 0 && stalledMs > stallMs + sweepMs ? 'other' : undefined
  }

  /** Whether the client has paused for too long in the middle of its body. */
  #isSilent(nowMs: number): boolean {
    const { idleMs, idleSinceMs } = this.#body
    // Whether it is complete is checked last, because that may have to look at all waiting bytes.
    return idleMs > 0 && nowMs - idleSinceMs > idleMs && !this.#body.isComplete
  }

  /** To be called while the rest of a body or of a pipeline is discarded. Limits how long that may go on once the response has been sent. */
  #linger(nowMs: number): void {
    if (this.#isLingering || !this.#downstream.isEnded || this.#socket.writableLength > 0) return
    this.#isLingering = true
    this.#cutAtMs = nowMs + LINGER_MS
  }
}

/** State of a client's connection. */
export type ClientState =
  /** Nothing has arrived yet. */
  | 'silent'
  /** A part of a head has arrived. */
  | 'head'
  /** A request is in progress: its body has not been read to the end, or its response not written. */
  | 'busy'
  | 'idle'
  /** Nothing more is served, and whatever still arrives is discarded. */
  | 'closing'
  /** The connection is closed, or `node:http` has it. */
  | 'gone'

/** Watches whether a client takes the bytes that wait for it. */
class StallWatch {
  readonly #socket: Socket
  /** How many bytes the client had taken when it last took some, and when that was noticed; undefined while nothing waits for it. */
  #takenBytes: number | undefined
  #takenMs = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** To be called at every sweep. Returns for how long bytes have waited without the client taking any. */
  stalledMs(nowMs: number): number {
    const { writableLength } = this.#socket
    // The number of waiting bytes does not tell: it may be the same although all earlier ones were taken, because others have followed.
    const takenBytes = writableLength === 0 ? undefined : this.#socket.bytesWritten - writableLength
    if (takenBytes === undefined || takenBytes !== this.#takenBytes) this.#takenMs = nowMs
    this.#takenBytes = takenBytes
    return nowMs - this.#takenMs
  }
}
