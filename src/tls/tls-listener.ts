import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createSecureContext, createServer, type SecureContext, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls'
import type { ConnectionSecurity } from '../listen/admitted-connections.ts'
import { endLikePlain, rawSocketOf } from '../listen/secured-socket.ts'
import { ServerNames } from './certificate-pair.ts'
import { failureReason, type HandshakeFailure } from './handshake-failures.ts'
import type { HandshakePlaces, PendingHandshake } from './handshake-places.ts'
import type { TlsMaterial } from './tls-files.ts'

/** For TLS 1.2: only forward secrecy, and only authenticated encryption. Those of TLS 1.3 are all good. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

/** What all pairs of a worker are served with, for new handshakes. */
export class TlsContexts {
  readonly #names: ServerNames
  readonly #contexts: readonly SecureContext[]
  /** For the pair that serves clients by default. */
  readonly options: SecureContextOptions & { readonly ticketKeys: Buffer }

  constructor({ pairs, clientAuthorities, ticketKeys }: TlsMaterial) {
    const shared = {
      minVersion: 'TLSv1.2',
      ciphers: CIPHERS,
      honorCipherOrder: true,
      // A client that could ask for handshakes at will would have the worker sign all day.
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      // OpenSSL resumes sessions of clients with certificates only in a named context.
      sessionIdContext: 'edge',
      ticketKeys: Buffer.from(ticketKeys),
      ...(clientAuthorities !== undefined && { ca: clientAuthorities }),
    } as const
    const options = pairs.map(({ certificate: cert, key }) => ({ ...shared, cert, key }))
    this.#names = new ServerNames(pairs)
    this.#contexts = options.map((each) => createSecureContext(each))
    this.options = options[0]!
  }

  contextOf(host: string): SecureContext {
    return this.#contexts[this.#names.indexOf(host)]!
  }
}

export interface TlsListenerOptions {
  /** What the listener speaks, as clients ask for it (ALPN). */
  readonly protocol: 'http/1.1' | 'h2'
  readonly requiresClientCertificate: boolean
  /** How long a handshake may take, the wait for its turn included. */
  readonly handshakeMs: number
  readonly places: HandshakePlaces
  readonly onFailure: (reason: HandshakeFailure) => void
  /** The time by which certificates of clients expire. */
  readonly wallMs?: () => number
}

/** The longest delay of a timer. Node would end handshakes by itself after two minutes; here a timer of ours does. */
const NEVER_MS = 2 ** 31 - 1
/** A fatal alert, internal_error: the nearest thing that a client understands before it has a connection. */
const NO_SLOT_OVER_TLS = Uint8Array.of(21, 3, 1, 0, 2, 2, 80)

const SPEAKS_TLS = 'This port speaks TLS: use https.'
/** For a client that does not speak TLS, which is most often a person who has typed http. */
const NOT_TLS = `HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${SPEAKS_TLS.length}\r\n\r\n${SPEAKS_TLS}`

/** Secures the connections of one listener. It owns no port: connections are given to it once they have a slot. */
export class TlsListener implements ConnectionSecurity {
  readonly refusal = NO_SLOT_OVER_TLS
  readonly #server: Server
  readonly #options: TlsListenerOptions
  readonly #pending = new Map<Socket, Handshake>()
  #contexts: TlsContexts | undefined

  constructor(options: TlsListenerOptions) {
    this.#options = options
    this.#server = createServer({
      ALPNProtocols: options.protocol === 'h2' ? ['h2'] : ['http/1.1', 'http/1.0'],
      handshakeTimeout: NEVER_MS,
      requestCert: options.requiresClientCertificate,
      rejectUnauthorized: options.requiresClientCertificate,
      SNICallback: (host, choose) => choose(null, this.#contexts!.contextOf(host)),
    })
    this.#server.on('secureConnection', (socket) => this.#noteSecure(socket))
    this.#server.on('tlsClientError', (error, socket) => this.#noteError(error, socket))
  }

  /** Serves new connections with these certificates; must be called before the first one. Open ones go on with what they have. */
  use(contexts: TlsContexts): void {
    this.#contexts = contexts
    this.#server.setSecureContext(contexts.options)
  }

  secure(socket: Socket, onSecure: (secured: Socket) => void): void {
    const { places, handshakeMs } = this.#options
    const fail = (reason: HandshakeFailure): void => this.#end(handshake, reason)
    const handshake = new Handshake(socket, this.#server, { onSecure, fail, handshakeMs })
    this.#pending.set(socket, handshake)
    handshake.onFirstBytes(() => places.enter(handshake))
  }

  #noteSecure(secured: TLSSocket): void {
    const handshake = this.#pending.get(rawSocketOf(secured))
    // One that has timed out in the meantime is closed already.
    if (handshake === undefined) return void secured.destroy()
    if (!this.#isStillAdmitted(secured)) return this.#end(handshake, 'client_certificate')
    this.#forget(handshake)
    handshake.noteSecure(secured)
  }

  /**
   * OpenSSL looks at a client's certificate in the first handshake alone. With TLS 1.3 each session that is resumed gives tickets for the next,
   * so a certificate that has expired since would be good for ever.
   */
  #isStillAdmitted(secured: TLSSocket): boolean {
    const { requiresClientCertificate, wallMs = Date.now } = this.#options
    if (!requiresClientCertificate || !secured.isSessionReused()) return true
    return Date.parse(secured.getPeerX509Certificate()?.validTo ?? '') > wallMs()
  }

  #noteError({ code }: NodeJS.ErrnoException, secured: TLSSocket): void {
    const handshake = this.#pending.get(rawSocketOf(secured))
    if (handshake === undefined) return
    const reason = failureReason(code, Boolean(secured.authorizationError))
    // OpenSSL sends no alert to somebody who does not speak TLS. To others it does, even if later records are no TLS.
    if (reason === 'not_tls' && handshake.socket.bytesWritten === 0) handshake.socket.write(NOT_TLS)
    this.#end(handshake, reason)
  }

  #end(handshake: Handshake, reason: HandshakeFailure): void {
    if (this.#pending.get(handshake.socket) !== handshake) return
    this.#forget(handshake)
    handshake.socket.destroy()
    this.#options.onFailure(reason)
  }

  #forget(handshake: Handshake): void {
    this.#pending.delete(handshake.socket)
    handshake.release()
    this.#options.places.leave(handshake, handshake.socket.bytesRead)
  }
}

interface HandshakeParts {
  readonly onSecure: (secured: Socket) => void
  /** Ends the connection, unless the handshake is over. */
  readonly fail: (reason: HandshakeFailure) => void
  readonly handshakeMs: number
}

class Handshake implements PendingHandshake {
  readonly socket: Socket
  readonly address: string | undefined
  readonly #onSecure: (secured: Socket) => void
  readonly #isHalfOpen: boolean
  readonly #server: Server
  readonly #fail: (reason: HandshakeFailure) => void
  readonly #timer: NodeJS.Timeout
  readonly #onClose = (): void => this.#fail('closed')

  constructor(socket: Socket, server: Server, { onSecure, fail, handshakeMs }: HandshakeParts) {
    this.socket = socket
    this.address = socket.remoteAddress
    this.#onSecure = onSecure
    this.#isHalfOpen = socket.allowHalfOpen
    this.#server = server
    this.#fail = fail
    this.#timer = setTimeout(() => fail('timeout'), handshakeMs).unref()
    socket.on('error', ignore)
    socket.on('close', this.#onClose)
  }

  get heldBytes(): number {
    return this.socket.readableLength
  }

  /** A connection that says nothing costs no more than on a plain port. What has been read stays in the socket, where TLS finds it. */
  onFirstBytes(enter: () => void): void {
    this.socket.once('readable', () => {
      if (this.socket.readableLength === 0) this.#fail('closed')
      else if (!this.socket.destroyed) enter()
    })
  }

  begin(): void {
    // From now on the server tells of the end, and why it came.
    this.socket.off('close', this.#onClose)
    // A client that closes its side before the handshake is over has nothing to wait for.
    this.socket.allowHalfOpen = false
    this.#server.emit('connection', this.socket)
  }

  hold(): void {
    const { _handle: handle } = this.socket as { _handle?: { reading: boolean; readStop(): void } | null }
    if (!handle) return
    handle.reading = false
    handle.readStop()
  }

  noteSecure(secured: TLSSocket): void {
    secured.allowHalfOpen = this.#isHalfOpen
    endLikePlain(secured)
    this.#onSecure(secured)
  }

  cut(): void {
    this.#fail('timeout')
  }

  release(): void {
    clearTimeout(this.#timer)
    this.socket.off('close', this.#onClose)
  }
}

function ignore(): void {
  // 'close' follows
}
