import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { ServerConfig } from '../config/config.ts'
import type { TimeShare } from '../time/slices.ts'
import { listenOn, takeConnections } from './accept.ts'
import { AdmittedConnections, type ConnectionLimits, NO_SLOT_OVER_HTTP } from './admitted-connections.ts'
import type { ListenerServer } from './listener-servers.ts'
import type { ListenTarget, PortAddress } from './listeners.ts'

// What a gateway may send along with its own request: as much as the common proxies take themselves.
const MAX_HEADER_BYTES = 64 * 1024
const SWEEP_MS = 50
/** At shutdown, a head that is here in part has this long to become a request, however long requests may take. */
const MAX_HEAD_GRACE_MS = 2000
const MAX_CHECK_MS = 30_000

export type ListenerTimeouts = Pick<ServerConfig, 'keepAliveMs' | 'headersTimeoutMs' | 'requestTimeoutMs'>

/** Sees connections before Node does, and keeps those that it can serve itself. */
export interface ConnectionFront {
  accept(socket: Socket): void
  /** From now on everything goes to Node. */
  drain(): void
  closeIdleConnections(): void
  closeAllConnections(): void
  close(): void
}

export interface ListenerOptions extends ConnectionLimits {
  readonly timeouts: ListenerTimeouts
  readonly handle: (req: IncomingMessage, res: ServerResponse) => void
  /** A client that waits for leave to send its body. */
  readonly handleExpecting: (req: IncomingMessage, res: ServerResponse) => void
  /** Whether Node itself refuses HTTP/1.1 requests without Host; else the handler sees them. */
  readonly requiresHost: boolean
  /** `local`: processes of this machine, on a unix socket; they have no address. */
  readonly peers: 'remote' | 'local'
  /** A connection could not be accepted. */
  readonly onAcceptError: (error: Error) => void
  /** Whether a connection has a request under way. Unset: all are given the same time at shutdown. */
  readonly isServing?: (socket: Socket) => boolean
  /** How much is parsed at a time. Unset: all that has come, which can be thousands of pipelined requests. */
  readonly parsing?: ParsingLimits
  /** It is about to close: what would not end by itself has to. */
  readonly onClosing?: () => void
  /** Anything else that this listener needs of its server. */
  readonly configure?: (server: Server) => void
  /** Gets the way to give a connection to Node, for good. */
  readonly newFront?: ((handOver: (socket: Socket) => void) => ConnectionFront) | undefined
}

/** What all listeners have in common. */
export type PortOptions = Pick<ListenerOptions, 'timeouts' | 'peers' | 'shares' | 'slots' | 'onFull' | 'onAcceptError'>

/** HTTP/1.1 on one listener. */
export class HttpListener implements ListenerServer {
  readonly #server: Server
  readonly #front: ConnectionFront | undefined
  readonly #options: ListenerOptions
  readonly #connections: AdmittedConnections
  /** Those whose last request has come. */
  readonly #ended = new WeakSet<Socket>()
  #isDraining = false

  constructor(options: ListenerOptions) {
    const { timeouts, handle, handleExpecting, requiresHost, configure, newFront } = options
    this.#options = options
    this.#connections = new AdmittedConnections(options, NO_SLOT_OVER_HTTP, () => this.#closeIdle())
    const draining = (handler: typeof handle): typeof handle => {
      return (req, res) => {
        // RFC 9112 9.6: what comes behind the last request of a connection is not served. Node would, and its responses go nowhere.
        if (this.#ended.has(req.socket)) return
        if (this.#isDraining) res.shouldKeepAlive = false
        handler(req, res)
        if (!res.shouldKeepAlive) this.#ended.add(req.socket)
      }
    }
    this.#server = createServer(
      { maxHeaderSize: MAX_HEADER_BYTES, requireHostHeader: requiresHost, ...nodeTimeouts(timeouts) },
      draining(handle),
    )
    // Node drops fields beyond its count without a word, and a limit key among them would slip its rule.
    this.#server.maxHeadersCount = 0
    this.#server.on('checkContinue', draining(handleExpecting))
    configure?.(this.#server)
    const closeIdle = this.#server.closeIdleConnections.bind(this.#server)
    // Node calls it, too.
    this.#server.closeIdleConnections = () => this.#sparingUnsent(closeIdle)
    const toNode = takeConnections(this.#server, (socket) => {
      // One that asked for a protocol that we do not offer comes here again.
      if (socket.destroyed || !this.#connections.admit(socket)) return
      if (this.#front !== undefined) return this.#front.accept(socket)
      toNode(socket)
      if (options.parsing !== undefined) readInPieces(socket, options.parsing)
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
    // Connections whose last response promised to keep them become idle one by one.
    this.#closeIdle()
    const sweep = setInterval(() => {
      this.#closeIdle()
      // One that was accepted just before has had a moment for its request.
      this.#connections.cut((socket) => socket.bytesRead === 0)
    }, SWEEP_MS)
    const { isServing } = this.#options
    const headCut = setTimeout(() => this.#connections.cut((socket) => isServing?.(socket) === false), Math.min(MAX_HEAD_GRACE_MS, graceMs))
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
    // What listens to the last connections has its turn before anybody goes on.
    await turn()
  }

  /** Node takes a connection for idle when its response has ended, though not all of it may have been sent. */
  #sparingUnsent(closeIdle: () => void): void {
    const sending = [...this.#connections.sockets()].filter(({ writableLength }) => writableLength > 0)
    for (const socket of sending) socket.destroy = () => socket
    closeIdle()
    for (const socket of sending) Reflect.deleteProperty(socket, 'destroy')
  }

  #closeIdle(): void {
    this.#server.closeIdleConnections()
    this.#front?.closeIdleConnections()
  }
}

function nodeTimeouts({ keepAliveMs, headersTimeoutMs, requestTimeoutMs }: ListenerTimeouts): ServerOptions {
  // Node looks for heads and requests that take too long only now and then.
  const connectionsCheckingInterval = Math.ceil(Math.min(MAX_CHECK_MS, headersTimeoutMs / 4, requestTimeoutMs / 4))
  return { keepAliveTimeout: keepAliveMs, headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs, connectionsCheckingInterval }
}

interface ParsingLimits {
  /** Of one connection at a time. */
  readonly bytes: number
  /** What parsing may take of the thread's time, all connections together. */
  readonly share: TimeShare
}

/**
 * To be called on a connection that Node's server has been given. Node parses all that it reads, 64 KiB, in one go: some 1,800 small
 * requests, while nothing else has its turn. From now on it gets so many bytes at a time, one piece a turn, and none while the
 * connection is paused or parsing has taken its share of the thread's time. A piece may be thousands of fields or chunks of a byte.
 */
export function readInPieces(socket: Socket, { bytes, share }: ParsingLimits): void {
  const push = socket.push.bind(socket)
  const read = socket._read.bind(socket)
  /** Read, and not parsed yet. While there is some, nothing more is read. */
  let rest: Buffer | undefined
  let isScheduled = false
  const parsePiece = (chunk: Buffer): boolean => {
    rest = chunk.length > bytes ? chunk.subarray(bytes) : undefined
    const startMs = performance.now()
    const wantsMore = push(chunk.subarray(0, bytes))
    const endMs = performance.now()
    share.spend(endMs - startMs, endMs)
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
    if (share.waitMs(performance.now()) === 0) return parsePiece(chunk)
    rest = chunk
    schedule()
    return false
  }
  socket.push = (chunk: Buffer | null) => (chunk === null ? push(null) : take(chunk))
  socket._read = (size) => (rest === undefined ? read(size) : schedule())
  socket.on('resume', schedule)
  // With somebody else listening, Node parses what the stream gives out, not what the handle reads.
  socket.on('data', () => {})
}
