import type { Socket } from 'node:net'
import type { RequestTrace } from '../telemetry/tracing/request-trace.ts'
import type { BodySource } from './body-source.ts'
import type { FieldLines } from './field-lines.ts'
import type { Peer } from './peer.ts'

/**
 * The client of one request, whatever carries its bytes: the proxy sends the response through it and knows nothing else of it. A client that
 * is gone takes everything in silence.
 */
export interface Downstream {
  readonly received: ReceivedHead
  readonly peer: Peer
  /** Nothing of it is read before somebody asks. */
  readonly body: BodySource
  /** Whether the connection can be given to another protocol behind this request. */
  readonly canUpgrade: boolean
  /** Whether it is too late for another response. */
  readonly isHeadSent: boolean
  /** The client has ended its side. It may still wait for the response. */
  readonly hasEnded: boolean
  /** Nobody is there to read a response. */
  readonly isGone: boolean
  /** Bytes that were written on the connection so far, and those of them that the system has not taken yet. */
  readonly writtenBytes: number
  readonly unsentBytes: number
  /** Notes what becomes of the request, where it is traced. */
  trace: RequestTrace | undefined
  /** Who hears of the client from now on. */
  listener: DownstreamListener | undefined

  /** RFC 9110 10.1.1: sends 100 Continue, where the client knows it. */
  invite(): void
  /** Sends an interim response, where the client knows them. */
  interim(status: number, reason: string, fields: FieldLines): void
  /** Leaves with the first write, which may be empty, or with the end. Without a reason, it has the usual one of its status. */
  head(status: number, reason: string | undefined, fields: FieldLines): void
  /**
   * To be called between the head of a chunked response and its body: from then on `write` and `end` get its chunks with their frames, as they
   * came, all but the last chunk. Returns false where that cannot be: they get the body without.
   */
  relayChunks(): boolean
  /**
   * Returns false when the client takes no more for now: onClientDrained follows. The bytes are the caller's again when this returns: what is not
   * sent by then is copied. A text has one letter a byte.
   */
  write(bytes: Buffer | string): boolean
  /** Trailers are names and values in turn. Of `last`, the same is true as of what is written. */
  end(last: Buffer | string | undefined, trailers: readonly string[]): void
  /** RFC 9110 7.8: sends the last head, and leaves the connection to whoever asks. */
  upgrade(status: number, reason: string, fields: FieldLines): UpgradedClient
  /** RFC 9112 9.6: this response is the last on its connection. */
  closeWhenDone(): void
  /** A client that takes nothing for so long while bytes wait for it is cut, also behind the end of the response. 0: it never is. */
  limitStall(ms: number): void
  /**
   * To be called when the response leaves before its request has come whole: the rest is read and thrown away, for a while. `stallMs`
   * bounds a client that does not take the response either; 0: no bound.
   */
  dropBody(stallMs: number): void
  /** Breaks the connection off, so that nobody takes half a response for a whole one. */
  reset(): void
  /** Closes the connection at once. */
  cut(): void
}

/** A request's head as it came. */
export interface ReceivedHead {
  readonly method: string
  readonly target: string
  /** As in `HTTP/1.1`. */
  readonly version: string
  /** Names and values in turn. */
  readonly fields: readonly string[]
  /** Their lines, line ends included, where each is written as `Name: value`; undefined where one is not, or nobody looked. */
  readonly lines?: string | undefined
}

/** Hears of a client while its request is under way. */
export interface DownstreamListener {
  /** The client takes more, after a write that returned false. */
  onClientDrained(): void
  /** The client has ended its side. It may still be there. */
  onClientEnded(): void
  onClientGone(): void
  /** Gets what any of the others throws: nobody else catches it, and it would end the worker. */
  abandon(error: unknown): void
}

export interface UpgradedClient {
  readonly socket: Socket
  /** What the client has sent behind its request, before it knew whether the protocol is accepted. */
  readonly early: Buffer
}
