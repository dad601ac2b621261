import type { Socket } from 'node:net'
import type { FrontTimeouts } from '../../listen/wire-front.ts'
import { CLOSE_MS, LINGER_MS } from '../downstream.ts'
import type { WireBody } from './wire-body.ts'
import type { WireDownstream } from './wire-downstream.ts'

/** How long may be waited for a client. One sweep checks all of them: a connection has no timer of its own. */
export class ClientDeadlines {
  readonly #socket: Socket
  readonly #body: WireBody
  readonly #downstream: WireDownstream
  readonly #stall: StallWatch
  /** When the state began; when a head did. */
  #sinceMs = performance.now()
  #isFirstHead = true
  /** When the last piece came of a head that is here in part. */
  #lastPieceMs = 0
  /** The response was sent, and what still comes behind it is thrown away. */
  #isLingering = false
  /** When it is closed even if the client still sends; 0: never. */
  #cutAtMs = 0

  constructor(socket: Socket, body: WireBody, downstream: WireDownstream) {
    this.#socket = socket
    this.#body = body
    this.#downstream = downstream
    this.#stall = new StallWatch(socket)
  }

  /** A part of a head came. `wasIdle`: the first of it. The time of a connection's first head began with the connection. */
  onPartOfHead(wasIdle: boolean, roughMs: number): void {
    this.#lastPieceMs = roughMs
    if (wasIdle) this.#sinceMs = performance.now()
  }

  onRequest(): void {
    this.#isFirstHead = false
  }

  /** The rest of the body is thrown away from now on, for no longer than this; 0: no limit. */
  onBodyDropped(stallMs: number): void {
    this.#cutAtMs = stallMs > 0 ? performance.now() + stallMs : 0
  }

  onRefused(): void {
    this.#cutAtMs = performance.now() + CLOSE_MS
  }

  /** The request was read and its response written, both to the end. */
  onComplete(roughMs: number): void {
    this.#cutAtMs = 0
    this.#isLingering = false
    this.#sinceMs = roughMs
  }

  /** To be called at every sweep. Returns what has taken too long: a head, for which there is a response, or anything else. */
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

  /** The client has not sent all of its body yet. */
  #isSilent(nowMs: number): boolean {
    const { idleMs, idleSinceMs } = this.#body
    // Whether it is complete is checked last, because that may have to look at all waiting bytes.
    return idleMs > 0 && nowMs - idleSinceMs > idleMs && !this.#body.isComplete
  }

  /** To be called while the rest of a body, or of a pipeline, is discarded: how long that may go on after the response. */
  #linger(nowMs: number): void {
    if (this.#isLingering || !this.#downstream.isEnded || this.#socket.writableLength > 0) return
    this.#isLingering = true
    this.#cutAtMs = nowMs + LINGER_MS
  }
}

/** What a client's connection is about. */
export type ClientState =
  /** Nothing has come yet. */
  | 'silent'
  /** A part of a head has arrived. */
  | 'head'
  /** A request is under way: its body is not read to the end, or its response not written. */
  | 'busy'
  | 'idle'
  /** Nothing more is served, and what still comes is thrown away. */
  | 'closing'
  /** It is closed, or `node:http` has it. */
  | 'gone'

/** Watches whether a client takes what waits for it. */
class StallWatch {
  readonly #socket: Socket
  /** How much the client had taken when it last took something, and when that was noticed; undefined while nothing waits for it. */
  #takenBytes: number | undefined
  #takenMs = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** To be called at every sweep: for how long bytes have waited of which none was taken. */
  stalledMs(nowMs: number): number {
    const { writableLength } = this.#socket
    // The same number of bytes may wait although all earlier ones were taken: later ones have followed them.
    const takenBytes = writableLength === 0 ? undefined : this.#socket.bytesWritten - writableLength
    if (takenBytes === undefined || takenBytes !== this.#takenBytes) this.#takenMs = nowMs
    this.#takenBytes = takenBytes
    return nowMs - this.#takenMs
  }
}
