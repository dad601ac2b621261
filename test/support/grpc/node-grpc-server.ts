import { constants, createServer, type Http2Server, type ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import { GRPC_LIMITS, type GrpcLimits, NO_SLOT_OVER_HTTP2 } from '../../../src/doors/grpc/grpc-limits.ts'
import type { GrpcMethod } from '../../../src/doors/grpc/grpc-method.ts'
import { PartialMessages } from '../../../src/doors/grpc/message-framing.ts'
import { listenOn, takeConnections } from '../../../src/listen/accept.ts'
import { AdmittedConnections } from '../../../src/listen/admitted-connections.ts'
import type { PortOptions } from '../../../src/listen/http-listener.ts'
import type { ListenerServer } from '../../../src/listen/listener-servers.ts'
import type { ListenTarget, PortAddress } from '../../../src/listen/listeners.ts'
import { type NodeCallContext, NodeGrpcCall } from './node-grpc-call.ts'

const SWEEP_MS = 250
const CLOSING_SWEEP_MS = 50
const LINGER_MS = 1000
/** HTTP/2 counts 32 bytes for a field besides its text. */
const FIELD_BYTES = 32

interface Session {
  readonly socket: Socket
  readonly calls: Set<NodeGrpcCall>
  readonly bornMs: number
  readonly maxAgeMs: number
  /** When it last had a call, or began. */
  idleSinceMs: number
  /** Whether the client's settings have come. */
  isReady: boolean
  hasServed: boolean
}

/** gRPC calls that `node:http2` carries: what our own layer is compared with. */
export class NodeGrpcServer implements ListenerServer {
  readonly #server: Http2Server
  readonly #options: PortOptions
  readonly #connections: AdmittedConnections
  readonly #sessions = new Map<ServerHttp2Session, Session>()
  readonly #limits: GrpcLimits
  /** Of all sessions. */
  #calls = 0
  #sweep: NodeJS.Timeout
  #isDraining = false

  /** `onFailure`: a method failed. */
  constructor(methods: ReadonlyMap<string, GrpcMethod>, options: PortOptions, onFailure: (error: unknown) => void, limits = GRPC_LIMITS) {
    this.#options = options
    this.#limits = limits
    const { requestTimeoutMs } = options.timeouts
    const context: NodeCallContext = { methods, limits, requestTimeoutMs, onFailure, partial: new PartialMessages(limits.maxPartialBytes) }
    this.#connections = new AdmittedConnections(options, NO_SLOT_OVER_HTTP2, { closeIdle: () => this.#cutIdle(), isServing: () => true })
    const { maxStreams: maxConcurrentStreams, maxHeaderBytes: maxHeaderListSize } = limits
    this.#server = createServer({
      settings: { maxConcurrentStreams, maxHeaderListSize, enablePush: false },
      maxHeaderListPairs: Math.ceil(maxHeaderListSize / FIELD_BYTES),
      ...({ streamResetBurst: limits.resetBurst, streamResetRate: limits.resetsPerSecond } as object),
    })
    const toNode = takeConnections(this.#server, (socket) => {
      this.#connections.admit(socket, (admitted) => {
        this.#server.once('session', (session) => this.#begin(session, admitted))
        toNode(admitted)
      })
    })
    this.#server.on('stream', (stream, headers) => {
      const session = this.#sessions.get(stream.session as ServerHttp2Session)
      if (session === undefined || !this.#hasRoom(session)) {
        stream.on('error', () => {}) // its 'close' follows
        return stream.close(constants.NGHTTP2_REFUSED_STREAM)
      }
      const call = new NodeGrpcCall(stream, headers, context)
      session.calls.add(call)
      this.#calls++
      stream.on('close', () => {
        session.calls.delete(call)
        this.#calls--
        session.hasServed = true
        session.idleSinceMs = performance.now()
      })
    })
    this.#sweep = setInterval(() => this.#check(), SWEEP_MS).unref()
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return listenOn(this.#server, target, this.#options.onAcceptError)
  }

  drain(): void {
    this.#isDraining = true
    for (const [session, state] of this.#sessions) this.#goAway(session, state)
  }

  async close(graceMs: number): Promise<void> {
    this.drain()
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const closeAll = (): void => {
      for (const [session, { calls }] of this.#sessions) {
        for (const call of calls) call.endStreaming()
        session.close()
      }
    }
    closeAll()
    clearInterval(this.#sweep)
    this.#sweep = setInterval(() => {
      closeAll()
      this.#connections.cut((socket) => socket.bytesRead === 0)
    }, CLOSING_SWEEP_MS)
    const cut = setTimeout(() => this.#connections.cut(() => true), graceMs)
    await closed
    clearInterval(this.#sweep)
    clearTimeout(cut)
  }

  #begin(session: ServerHttp2Session, socket: Socket): void {
    const nowMs = performance.now()
    const maxAgeMs = this.#limits.maxAgeMs * (1 + Math.random() / 10)
    const state: Session = {
      socket,
      calls: new Set(),
      bornMs: nowMs,
      maxAgeMs,
      idleSinceMs: nowMs,
      isReady: false,
      hasServed: false,
    }
    this.#sessions.set(session, state)
    session.on('remoteSettings', () => {
      state.isReady = true
    })
    session.on('close', () => this.#sessions.delete(session))
    session.on('error', () => {}) // its 'close' follows
  }

  /** Clients that have just come make a call first. In one step: nghttp2 serves no calls that come behind any GOAWAY; clients repeat them. */
  #goAway(session: ServerHttp2Session, { hasServed, calls }: Session): void {
    if (hasServed || calls.size > 0) session.close()
  }

  #hasRoom({ calls }: Session): boolean {
    const { maxWorkerStreams, fairStreams } = this.#limits
    return this.#calls < maxWorkerStreams || calls.size < fairStreams
  }

  #check(): void {
    const nowMs = performance.now()
    const { keepAliveMs, headersTimeoutMs } = this.#options.timeouts
    for (const [session, state] of this.#sessions) {
      const idleMs = state.calls.size === 0 ? nowMs - state.idleSinceMs : 0
      let unreadMs = idleMs
      for (const call of state.calls) {
        const stuckMs = call.stuckMs(nowMs)
        if (stuckMs > keepAliveMs) call.cancel()
        unreadMs = Math.max(unreadMs, stuckMs)
      }
      // Neither the end of a call nor GOAWAY got through.
      if (unreadMs > keepAliveMs + LINGER_MS) state.socket.destroy()
      else if (!state.isReady && nowMs - state.bornMs > headersTimeoutMs) session.destroy()
      else if (this.#isDraining || nowMs - state.bornMs > state.maxAgeMs) this.#goAway(session, state)
      else if (state.isReady && idleMs > keepAliveMs) session.close()
    }
  }

  #cutIdle(): void {
    for (const { calls, isReady, socket } of this.#sessions.values()) {
      if (isReady && calls.size === 0 && socket.writableLength === 0) socket.destroy()
    }
  }
}
