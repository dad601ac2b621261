import type { Socket } from 'node:net'
import type { HeaderList } from '../http1/header-fields.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { RequestTrace } from '../telemetry/tracing/request-trace.ts'
import { parseAddress } from '../text/address.ts'

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

/** Who is at the other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** What it says in X-Forwarded-* and the like is believed. */
  readonly isTrusted: boolean
}

export type PeerOf = (socket: Socket) => Peer

/** On a port: trusted where its address is that of a trusted proxy. */
export function remotePeerOf(trustedProxies: TrustedProxies): PeerOf {
  return ({ remoteAddress }) => peerAt(remoteAddress, trustedProxies)
}

/** On a unix socket: a process of this machine, which has no address. It counts as one that connects over loopback. */
export function localPeerOf(trustedProxies: TrustedProxies): PeerOf {
  const peer = peerAt('127.0.0.1', trustedProxies)
  return () => peer
}

export function peerAt(remoteAddress: string | undefined, trustedProxies: TrustedProxies): Peer {
  // A server that listens on IPv6 sees IPv4 peers in their mapped form.
  const address = (remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
  const parsed = parseAddress(address)
  return { address, isTrusted: parsed !== undefined && trustedProxies.includes(parsed) }
}

/** How long a client may go on with a body that nobody reads before its connection is cut. */
export const LINGER_MS = 5000

/** A request's body while it comes. It is read from the first `resume` on. */
export interface BodySource {
  /** The last byte has come, read or not. */
  readonly isComplete: boolean
  /** It was read to its end. */
  readonly isRead: boolean
  /** Some of it is here, and is given to its reader as soon as whoever handles the request's head returns. */
  readonly comesNext: boolean
  /** Nothing more will come. */
  readonly isGone: boolean
  /** Gives everything that is read from now on to this reader, or throws it away. A reader that is set after the end is told of the end in a later turn. */
  giveTo(reader: BodyReader | undefined): void
  pause(): void
  resume(): void
  /** A client that sends nothing for so long is cut. 0: it never is. */
  limitIdle(ms: number): void
}

/** Who takes a request's body. */
export interface BodyReader {
  /** The bytes may be in a buffer that the next read overwrites: what is needed beyond the call is copied. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** The client is gone, perhaps before the end. */
  onGone(): void
  /** Gets what any of the others throws: nobody else catches it, and it would end the worker. */
  abandon(error: unknown): void
}

/** The fields of a response as the wire carries them: each is `Name: value` and a line end. */
export interface FieldLines {
  readonly text: string
  /** Date, or Content-Length, is one of them. */
  readonly hasDate: boolean
  readonly hasLength: boolean
}

/** Of what a line has beside its name and its value: a colon, a space and a line end. */
export const SEPARATORS_LENGTH = 4

/** The lines of these fields. */
export function linesOf(fields: HeaderList): string {
  let text = ''
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return text
}

/** The fields of these lines, names and values in turn. */
export function headerLines(lines: string): HeaderList {
  const fields: HeaderList = []
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(':', at)
    const end = lines.indexOf('\r', colon)
    fields.push(lines.slice(at, colon), lines.slice(colon + 2, end))
    at = end + 2
  }
  return fields
}

/** A head as the wire carries it. */
export function headText(status: number, reason: string, { text }: FieldLines): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${text}\r\n`
}

/** How long a connection that was refused may take to close. */
export const CLOSE_MS = 1000

/** What a client is told whose bytes are no request: the last response on its connection. */
export function malformedResponse(status: string, message: string): string {
  const body = JSON.stringify({ error: { message, type: 'invalid_request_error', code: 'bad_request' } })
  const fields = `X-Edge-Reason: bad_request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`
  return `HTTP/1.1 ${status}\r\n${fields}\r\n${body}`
}

/** Breaks a connection off by a reset, so that nobody takes half a response for a whole one. Unix sockets know no reset: there it is closed. */
export function breakOff(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
