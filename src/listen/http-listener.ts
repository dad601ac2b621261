import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { ServerConfig } from '../config/config.ts'
import type { TimeShare } from '../time/slices.ts'
import { listenOn, takeConnections } from './accept.ts'
import { AdmittedConnections, type ConnectionLimits, MAX_HEAD_GRACE_MS, NO_SLOT_OVER_HTTP } from './admitted-connections.ts'
import type { ListenerServer } from './listener-servers.ts'
import type { ListenTarget, PortAddress } from './listeners.ts'

// Largest head that a gateway may send, as large as common proxies accept themselves.
const MAX_HEADER_BYTES = 64 * 1024
const SWEEP_MS = 50
const MAX_CHECK_MS = 30_000

export type ListenerTimeouts = Pick<ServerConfig, 'keepAliveMs' | 'headersTimeoutMs' | 'requestTimeoutMs'>

/** Sees connections before Node does, and keeps those that it can serve itself. */
export interface ConnectionFront {
  accept(socket: Socket): void
  /** Hands all connections over to Node from now on. */
  drain(): void
  /** Whether a request is under way on a connection of the front; false if it is not one of them. */
  isServing(socket: Socket): boolean
  closeIdleConnections(): void
  closeAllConnections(): void
  close(): void
}

export interface ListenerOptions extends ConnectionLimits {
  readonly timeouts: ListenerTimeouts
  readonly handle: (req: IncomingMessage, res: ServerResponse) => void
  /** Handles a client that waits for 100 Continue before it sends its body. */
  readonly handleExpecting: (req: IncomingMessage, res: ServerResponse) => void
  /** `local` peers are processes of this machine on a unix socket, which have no address. */
  readonly peers: 'remote' | 'local'
  /** Called when a connection could not be accepted. */
  readonly onAcceptError: (error: Error) => void
  /** Whether a connection that Node has is in use beyond its requests, such as by another protocol. */
  readonly isServing?: (socket: Socket) => boolean
  /** Whether a kept slot is enough for this. If unset, nothing is. */
  readonly isProbe?: (req: IncomingMessage) => boolean
  /** How much is parsed at a time. If unset, it is everything that has arrived, which can be thousands of pipelined requests. */
  readonly parsing?: ParsingLimits
  /** Called before the listener closes, to end what would not end by itself. */
  readonly onClosing?: () => void
  /** Makes any other changes to the server that this listener needs. */
  readonly configure?: (server: Server) => void
  /** Creates the front. `handOver` gives a connection to Node, for good. */
  readonly newFront?: ((handOver: (socket: Socket) => void) => ConnectionFront) | undefined
}

/** Options that all listeners have in common. */
export type PortOptions = Pick<ListenerOptions, 'timeouts' | 'peers' | 'shares' | 'slots' | 'onFull' | 'security' | 'onAcceptError'>

/** An HTTP/1.1 server on one listener. */
export class HttpListener implements ListenerServer {
  readonly #server: Server
  readonly #front: ConnectionFront | undefined
  readonly #options: ListenerOptions
  readonly #connections: AdmittedConnections
  /** Requests under way on each connection that Node has. */
  readonly #open = new WeakMap<Socket, Set<ServerResponse>>()
  /** Connections whose last request has arrived. */
  readonly #ended = new WeakSet<Socket>()
  #isDraining = false

  constructor(options: ListenerOptions) {
    const { timeouts, handle, handleExpecting, configure, newFront } = options
    this.#options = options
    this.#connections = new AdmittedConnections(options, NO_SLOT_OVER_HTTP, {
      closeIdle: () => this.#closeIdle(),
      isServing: (socket) => this.#isServing(socket),
    })
    const draining = (handler: typeof handle): typeof handle => {
      return (req, res) => {
        // RFC 9112 9.6: requests after the last one of a connection are not served. Node would serve them, and drop the responses.
        if (this.#ended.has(req.socket)) return
        if (this.#isDraining) res.shouldKeepAlive = false
        if (this.#connections.isKept(req.socket)) {
          if (options.isProbe?.(req) === true) res.shouldKeepAlive = false
          else if (!this.#connections.promote(req.socket)) return void this.#ended.add(req.socket)
        }
        this.#note(req.socket, res)
        handler(req, res)
        if (!res.shouldKeepAlive) this.#ended.add(req.socket)
      }
    }
    this.#server = createServer(
      // Handlers judge Host, together with the rest of the framing.
      { maxHeaderSize: MAX_HEADER_BYTES, requireHostHeader: false, ...nodeTimeouts(timeouts) },
      draining(handle),
    )
    // By default, Node silently drops fields beyond a maximum count, and a limit key among them would evade its rule.
    this.#server.maxHeadersCount = 0
    this.#server.on('checkContinue', draining(handleExpecting))
    configure?.(this.#server)
    const closeIdle = this.#server.closeIdleConnections.bind(this.#server)
    // Node calls this method as well.
    this.#server.closeIdleConnections = () => this.#sparingUnsent(closeIdle)
    const serve = (socket: Socket): void => {
      if (this.#front !== undefined) return this.#front.accept(socket)
      toNode(socket)
      if (options.parsing !== undefined) readInPieces(socket, options.parsing)
    }
    const toNode = takeConnections(this.#server, (socket) => {
      // The proxy emits a connection again after a request to upgrade to a protocol that it does not offer.
      if (!socket.destroyed) this.#connections.admit(socket, serve)
    })
    this.#front = newFront?.(toNode)
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return listenOn(this.#server, target, this.#options.onAcceptError)
  }

  drain(): void {
    this.#isDraining = true
    this.#front?.drain()
  }

  async close(graceMs: number, cutRest: () => void = () => {}): Promise<void> {
    this.drain()
    this.#options.onClosing?.()
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    // Connections whose last response promised keep-alive become idle one by one.
    this.#closeIdle()
    const sweep = setInterval(() => {
      this.#closeIdle()
      this.#connections.cutSilent(SWEEP_MS)
    }, SWEEP_MS)
    const headCut = setTimeout(
      () => {
        this.#connections.cutHandshakes()
        this.#connections.cut((socket) => !this.#isServing(socket))
      },
      Math.min(MAX_HEAD_GRACE_MS, graceMs),
    )
    const graceOver = new AbortController()
    const cut = sleep(graceMs, undefined, { signal: graceOver.signal }).then(
      () => {
        this.#server.closeAllConnections()
        this.#front?.closeAllConnections()
        cutRest()
      },
      () => {}, // closed in time
    )
    await closed
    this.#front?.close()
    clearInterval(sweep)
    clearTimeout(headCut)
    graceOver.abort()
    await cut
    // Handlers of the last connections' events run before the caller continues.
    await turn()
  }

  #note(socket: Socket, res: ServerResponse): void {
    const open = this.#open.get(socket) ?? new Set()
    this.#open.set(socket, open.add(res))
    res.once('close', () => open.delete(res))
  }

  /** A request whose body is still on its way is not under way yet, unless the listener says so. */
  #isServing(socket: Socket): boolean {
    if (socket.writableLength > 0 || this.#front?.isServing(socket) === true || this.#options.isServing?.(socket) === true) return true
    for (const { req } of this.#open.get(socket) ?? []) if (req.complete) return true
    return false
  }

  /** Node considers a connection idle when its response has ended, even if part of it is unsent. Such connections are spared. */
  #sparingUnsent(closeIdle: () => void): void {
    const sockets = [...this.#connections.sockets()]
    const sending = sockets.filter(({ writableLength }) => writableLength > 0).map((socket) => [socket, socket.destroy] as const)
    for (const [socket] of sending) socket.destroy = () => socket
    closeIdle()
    for (const [socket, destroy] of sending) socket.destroy = destroy
  }

  #closeIdle(): void {
    this.#server.closeIdleConnections()
    this.#front?.closeIdleConnections()
  }
}

function nodeTimeouts({ keepAliveMs, headersTimeoutMs, requestTimeoutMs }: ListenerTimeouts): ServerOptions {
  // Node checks only at this interval for heads and requests that take too long.
  const connectionsCheckingInterval = Math.ceil(Math.min(MAX_CHECK_MS, headersTimeoutMs / 4, requestTimeoutMs / 4))
  return { keepAliveTimeout: keepAliveMs, headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs, connectionsCheckingInterval }
}

interface ParsingLimits {
  /** Bytes of one connection that are parsed at a time. */
  readonly bytes: number
  /** The share of the thread's time that parsing may take, for all connections together. */
  readonly share: TimeShare
}

/**
 * Must be called after the connection has been given to Node's server. Node parses everything that it reads, up to 64 KiB or some 1,800 small
 * requests, in one go, while nothing else runs. From now on it gets one piece of limited size per turn of the event loop, and none while the
 * connection is paused or parsing has used up its share of the thread's time. A piece may contain thousands of fields or one-byte chunks.
 */
export function readInPieces(socket: Socket, { bytes, share }: ParsingLimits): void {
  const push = socket.push.bind(socket)
  const read = socket._read.bind(socket)
  /** Bytes that are read but not yet parsed. While there are any, nothing more is read. */
  let rest: Buffer | undefined
  let hasEnded = false
  let isScheduled = false
  const parsePiece = (chunk: Buffer): boolean => {
    rest = chunk.length > bytes ? chunk.subarray(bytes) : undefined
    const startMs = performance.now()
    const wantsMore = push(chunk.subarray(0, bytes))
    const endMs = performance.now()
    share.spend(endMs - startMs, endMs)
    if (rest === undefined && hasEnded) push(null)
    return wantsMore && rest === undefined
  }
  const parseRest = (): void => {
    isScheduled = false
    if (rest === undefined || socket.isPaused() || socket.destroyed) return
    if (share.waitMs(performance.now()) > 0) schedule()
    else parsePiece(rest)
  }
  const schedule = (): void => {
    if (rest === undefined || isScheduled) return
    isScheduled = true
    const waitMs = share.waitMs(performance.now())
    if (waitMs === 0) setImmediate(parseRest)
    else setTimeout(parseRest, waitMs).unref()
  }
  const take = (chunk: Buffer): boolean => {
    if (rest !== undefined) {
      // A secured socket decrypts all that has arrived, even if it is asked to stop after the first part.
      rest = Buffer.concat([rest, chunk])
      return false
    }
    if (share.waitMs(performance.now()) === 0) return parsePiece(chunk)
    rest = chunk
    schedule()
    return false
  }
  socket.push = (chunk: Buffer | null) => {
    if (chunk !== null) return take(chunk)
    hasEnded = true
    return rest === undefined && push(null)
  }
  socket._read = (size) => (rest === undefined ? read(size) : schedule())
  socket.on('resume', schedule)
  // Because of this listener, Node parses what the stream emits instead of reading from the handle directly.
  socket.on('data', () => {})
}
