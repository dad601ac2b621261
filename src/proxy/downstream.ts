import type { Socket } from 'node:net'
import type { HeaderList } from '../http1/header-fields.ts'
import { isSecured } from '../listen/secured-socket.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { RequestTrace } from '../telemetry/tracing/request-trace.ts'
import { parseAddress } from '../text/address.ts'

/**
 * The client of one request, whatever carries its bytes. The proxy sends the response through it and knows nothing else about it. Writes to a
 * client that is gone are ignored.
 */
export interface Downstream {
  readonly received: ReceivedHead
  readonly peer: Peer
  /** Nothing of the body is read before its first `resume`. */
  readonly body: BodySource
  /** Whether the connection can switch to another protocol after this request. */
  readonly canUpgrade: boolean
  /** Whether it is too late for a different response. */
  readonly isHeadSent: boolean
  /** The client has ended its side, but may still wait for the response. */
  readonly hasEnded: boolean
  /** Nobody is left to read a response. */
  readonly isGone: boolean
  /** Bytes written to the connection so far, and those of them that the system has not taken yet. */
  readonly writtenBytes: number
  readonly unsentBytes: number
  /** Notes what becomes of the request; undefined if it is not traced. */
  trace: RequestTrace | undefined
  /** Receives the events of the client from now on. */
  listener: DownstreamListener | undefined

  /** Sends 100 Continue (RFC 9110 10.1.1), unless the client speaks HTTP/1.0. */
  invite(): void
  /** Sends an interim response, unless the client speaks HTTP/1.0. */
  interim(status: number, reason: string, fields: FieldLines): void
  /** Sets the head, which is sent with the first write, even an empty one, or with the end. If `reason` is undefined, the status has its usual one. */
  head(status: number, reason: string | undefined, fields: FieldLines): void
  /**
   * To be called between the head of a chunked response and its body. From then on, `write` and `end` take the chunks with their framing, as
   * received, all but the last chunk. Returns false if that is impossible; then they take the body without framing.
   */
  relayChunks(): boolean
  /**
   * Returns false if the client takes no more for now; onClientDrained follows. The caller may reuse the bytes when this returns, because what has
   * not been sent by then is copied. A string is a latin1 string.
   */
  write(bytes: Buffer | string): boolean
  /** Ends the response. `last` is treated like the bytes of a `write`. Trailers are names and values in turn. */
  end(last: Buffer | string | undefined, trailers: readonly string[]): void
  /** Sends the last head (RFC 9110 7.8), and leaves the connection to the caller. */
  upgrade(status: number, reason: string, fields: FieldLines): UpgradedClient
  /** Makes this response the last on its connection (RFC 9112 9.6). */
  closeWhenDone(): void
  /** Limits how long a client may take nothing while bytes wait for it, even after the end of the response, before it is cut; 0 means no limit. */
  limitStall(ms: number): void
  /**
   * To be called when the response is sent before the whole request has arrived: the rest is read and discarded for a while. `stallMs` bounds a
   * client that does not take the response either; 0 means no bound.
   */
  dropBody(stallMs: number): void
  /** Resets the connection, so that nobody takes half a response for a whole one. */
  reset(): void
  /** Closes the connection at once. */
  cut(): void
}

/** A request's head, as received. */
export interface ReceivedHead {
  readonly method: string
  readonly target: string
  /** Version number, such as `1.1`. */
  readonly version: string
  /** Names and values in turn. */
  readonly fields: readonly string[]
  /** The field lines with their line ends; undefined if one is not written as `Name: value`, or if nobody checked. */
  readonly lines?: string | undefined
}

/** Receives the events of a client while its request is in progress. */
export interface DownstreamListener {
  /** The client takes more again, after a write that returned false. */
  onClientDrained(): void
  /** The client has ended its side, but may still be there. */
  onClientEnded(): void
  onClientGone(): void
  /** Gets whatever the other callbacks throw: nobody else catches it, and it would end the worker. */
  abandon(error: unknown): void
}

export interface UpgradedClient {
  readonly socket: Socket
  /** Bytes that the client sent after its request, before it knew whether the protocol is accepted. */
  readonly early: Buffer
}

/** The other end of a client's connection. */
export interface Peer {
  readonly address: string
  /** How it has connected. */
  readonly scheme: 'http' | 'https'
  /** Its X-Forwarded-* and similar fields are trusted. */
  readonly isTrusted: boolean
}

export type PeerOf = (socket: Socket) => Peer

/** Returns the peers of a port, which are trusted if they have the address of a trusted proxy. */
export function remotePeerOf(trustedProxies: TrustedProxies): PeerOf {
  return (socket) => peerAt(socket.remoteAddress, trustedProxies, isSecured(socket) ? 'https' : 'http')
}

/** Returns the peer of a unix socket: a process on this machine, which has no address. It counts as connecting over loopback. */
export function localPeerOf(trustedProxies: TrustedProxies): PeerOf {
  const peer = peerAt('127.0.0.1', trustedProxies)
  return () => peer
}

export function peerAt(remoteAddress: string | undefined, trustedProxies: TrustedProxies, scheme: Peer['scheme'] = 'http'): Peer {
  // A server that listens on IPv6 sees IPv4 peers in their mapped form.
  const address = (remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')
  const parsed = parseAddress(address)
  return { address, scheme, isTrusted: parsed !== undefined && trustedProxies.includes(parsed) }
}

/** How long a client may go on sending a body that nobody wants before its connection is cut. */
export const LINGER_MS = 5000

/** A request's body as it arrives. It is read from the first `resume` on. */
export interface BodySource {
  /** The last byte has arrived, whether it has been read or not. Not to be asked while a piece is given to the reader. */
  readonly isComplete: boolean
  /** The body has been read to its end. */
  readonly isRead: boolean
  /** Some of the body has arrived, and its reader gets it as soon as the handler of the request's head returns. */
  readonly comesNext: boolean
  /** The connection is closed, so nothing more will arrive. */
  readonly isGone: boolean
  /** Gives everything that is read from now on to this reader; without one, it is discarded. A reader that is set after the end gets onEnd in a later turn. */
  giveTo(reader: BodyReader | undefined): void
  pause(): void
  resume(): void
  /** Limits how long a client may send nothing before it is cut; 0 means no limit. */
  limitIdle(ms: number): void
}

/** Receives a request's body. */
export interface BodyReader {
  /** The bytes may lie in a buffer that the next read overwrites, so whatever is needed after the call must be copied. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** The client is gone, perhaps before the end of the body. */
  onGone(): void
  /** Gets whatever the other callbacks throw: nobody else catches it, and it would end the worker. */
  abandon(error: unknown): void
}

/** The fields of a response as they are sent: each is `Name: value` and a line end. */
export interface FieldLines {
  readonly text: string
  /** Whether Date, and whether Content-Length, is one of the fields. */
  readonly hasDate: boolean
  readonly hasLength: boolean
}

/** Length of what a line has besides its name and its value: a colon, a space and a line end. */
export const SEPARATORS_LENGTH = 4

/** Returns the lines of these fields. */
export function linesOf(fields: HeaderList): string {
  let text = ''
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return text
}

/** Returns the fields of these lines, names and values in turn. */
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

/** Returns a head as it is sent. */
export function headText(status: number, reason: string, { text }: FieldLines): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${text}\r\n`
}

/** How long a refused connection may take to close. */
export const CLOSE_MS = 1000

/** Returns the response to bytes that are not a request. It is the last one on its connection. */
export function malformedResponse(status: string, message: string): string {
  const body = JSON.stringify({ error: { message, type: 'invalid_request_error', code: 'bad_request' } })
  const fields = `X-Edge-Reason: bad_request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`
  return `HTTP/1.1 ${status}\r\n${fields}\r\n${body}`
}
