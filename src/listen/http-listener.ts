import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { ServerConfig } from '../config/config.ts'
import type { ConnectionPlaces } from './connection-places.ts'
import type { ConnectionShares } from './connection-shares.ts'
import type { ListenTarget, PortAddress } from './listen-address.ts'
import { listenOn } from './listen-on.ts'
import type { ListenerServer } from './listener-server.ts'
import { type ParsingLimits, readInPieces } from './read-in-pieces.ts'
import { TurnedAway } from './turned-away.ts'

// What a gateway may send along with its own request: as much as the common proxies take themselves.
const MAX_HEADER_BYTES = 64 * 1024
const SWEEP_MS = 50
/** When places are short, a connection on which nothing was sent for so long loses its own. */
const MAX_SILENCE_MS = 1000
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

export interface ListenerOptions {
  readonly timeouts: ListenerTimeouts
  readonly handle: (req: IncomingMessage, res: ServerResponse) => void
  /** A client that waits for leave to send its body. */
  readonly handleExpecting: (req: IncomingMessage, res: ServerResponse) => void
  /** Whether Node itself refuses HTTP/1.1 requests without Host; else the handler sees them. */
  readonly requiresHost: boolean
  /** `local`: processes of this machine, on a unix socket; they have no address. */
  readonly peers: 'remote' | 'local'
  readonly shares: ConnectionShares
  /** How many connections there may be on this listener. */
  readonly places: ConnectionPlaces
  /** A connection came for which there was no place. */
  readonly onFull: () => void
  /** A connection could not be accepted. */
  readonly onAcceptError: (error: Error) => void
  /** Whether a connection has a request under way. Unset: all are given the same time at shutdown. */
  readonly isServing?: (socket: Socket) => boolean
  /** How much is parsed at a time. Unset: all that has come, which can be thousands of pipelined requests. */
  readonly parsing?: ParsingLimits
  /** Anything else that this listener needs of its server. */
  readonly configure?: (server: Server) => void
  /** Gets the way to give a connection to Node, for good. */
  readonly newFront?: ((handOver: (socket: Socket) => void) => ConnectionFront) | undefined
}

/** What all listeners have in common. */
export type PortOptions = Pick<ListenerOptions, 'timeouts' | 'peers' | 'shares' | 'places' | 'onFull' | 'onAcceptError'>

/** HTTP/1.1 on one listener. */
export class HttpListener implements ListenerServer {
  readonly #server: Server
  readonly #front: ConnectionFront | undefined
  readonly #options: ListenerOptions
  /** Those that have a place, and when they got it. */
  readonly #sockets = new Map<Socket, number>()
  /** Those whose last request has come. */
  readonly #ended = new WeakSet<Socket>()
  readonly #turnedAway = new TurnedAway()
  #mayReclaimAtMs = 0
  #isDraining = false

  constructor(options: ListenerOptions) {
    const { timeouts, handle, handleExpecting, requiresHost, configure, newFront } = options
    this.#options = options
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
      if (socket.destroyed || (!this.#sockets.has(socket) && !this.#admit(socket))) return
      if (this.#front !== undefined) return this.#front.accept(socket)
      toNode(socket)
      if (options.parsing !== undefined) readInPieces(socket, options.parsing)
    })
    this.#front = newFront?.(toNode)
  }

  async listen(target: ListenTarget): Promise<PortAddress | undefined> {
    const address = await listenOn(this.#server, target)
    this.#server.on('error', this.#options.onAcceptError)
    return address
  }

  drain(): void {
    this.#isDraining = true
    this.#front?.drain()
  }

  async close(graceMs: number, cutRest: () => void = () => {}): Promise<void> {
    this.drain()
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    // Connections whose last response promised to keep them become idle one by one.
    this.#closeIdle()
    const sweep = setInterval(() => {
      this.#closeIdle()
      // One that was accepted just before has had a moment for its request.
      this.#cut((socket) => socket.bytesRead === 0)
    }, SWEEP_MS)
    const { isServing } = this.#options
    const headCut = setTimeout(() => this.#cut((socket) => isServing?.(socket) === false), Math.min(MAX_HEAD_GRACE_MS, graceMs))
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

  /** Returns false for a connection that is not to be served. */
  #admit(socket: Socket): boolean {
    const { shares, places, onFull } = this.#options
    if (!places.take() && !(this.#reclaim() && places.take())) {
      onFull()
      this.#turnedAway.refuse(socket)
      return false
    }
    this.#sockets.set(socket, performance.now())
    socket.once('close', () => this.#forget(socket))
    shares.opened()
    return true
  }

  #forget(socket: Socket): void {
    if (!this.#sockets.delete(socket)) return
    this.#options.shares.closed()
    this.#options.places.giveBack()
  }

  /** Closes connections without a request, for others want their places. Returns whether there were any. */
  #reclaim(): boolean {
    const nowMs = performance.now()
    if (nowMs < this.#mayReclaimAtMs) return false
    // All connections are looked at; so long that this takes no more than some tenth of the time.
    this.#mayReclaimAtMs = nowMs + this.#sockets.size / 100
    this.#closeIdle()
    this.#cut((socket, sinceMs) => socket.bytesRead === 0 && nowMs - sinceMs > MAX_SILENCE_MS)
    const before = this.#sockets.size
    // Their descriptors are free now, their 'close' comes later.
    for (const socket of this.#sockets.keys()) if (socket.destroyed) this.#forget(socket)
    return this.#sockets.size < before
  }

  /** Node takes a connection for idle when its response has ended, though not all of it may have been sent. */
  #sparingUnsent(closeIdle: () => void): void {
    const sending = [...this.#sockets.keys()].filter(({ writableLength }) => writableLength > 0)
    for (const socket of sending) socket.destroy = () => socket
    closeIdle()
    for (const socket of sending) Reflect.deleteProperty(socket, 'destroy')
  }

  #cut(isCut: (socket: Socket, sinceMs: number) => boolean): void {
    for (const [socket, sinceMs] of this.#sockets) if (isCut(socket, sinceMs)) socket.destroy()
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

/**
 * Puts `accept` in the place of what Node does with a new connection, and returns that. The server that listens is the one that
 * connections are given to, so Node goes on to time, count and close them.
 */
function takeConnections(server: Server, accept: (socket: Socket) => void): (socket: Socket) => void {
  const [toNode, ...others] = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  if (toNode === undefined || others.length > 0) throw new Error('expected a server with the one connection listener that Node gives it')
  server.off('connection', toNode)
  server.on('connection', accept)
  return (socket) => toNode.call(server, socket)
}
