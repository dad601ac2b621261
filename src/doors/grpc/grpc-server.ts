import { createServer, type Server, type Socket } from 'node:net'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { listenOn } from '../../listen/accept.ts'
import { AdmittedConnections, MAX_HEAD_GRACE_MS } from '../../listen/admitted-connections.ts'
import type { PortOptions } from '../../listen/http-listener.ts'
import type { ListenerServer } from '../../listen/listener-servers.ts'
import type { ListenTarget, PortAddress } from '../../listen/listeners.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { ExtAuthzCheck } from './ext-authz-service.ts'
import { GRPC_LIMITS, NO_SLOT_OVER_HTTP2 } from './grpc-limits.ts'
import type { GrpcMethod } from './grpc-method.ts'
import { HealthWatches, healthMethods } from './health-service.ts'
import { GrpcConnection } from './http2/grpc-connection.ts'
import { Http2Context } from './http2/http2-context.ts'
import { rateLimitMethods } from './rate-limit-service.ts'

export interface GrpcServerParts {
  readonly pipeline: DecisionPipeline
  /** Readiness as `/readyz` reports it. */
  readonly isReady: () => boolean
  /** Counts the limits that callers of the rate limit service send along, which are ignored. */
  readonly ignoredLimits: Series
}

/** Creates the gRPC listener, with all methods of all services. */
export function newGrpcServer(options: PortOptions, { pipeline, isReady, ignoredLimits }: GrpcServerParts): ListenerServer {
  const watches = new HealthWatches(isReady)
  const all = [new ExtAuthzCheck(pipeline), ...rateLimitMethods(pipeline, ignoredLimits), ...healthMethods(isReady, watches)]
  const methods = new Map(all.map((method) => [method.path, method]))
  const server = new OwnGrpcServer(methods, options, (error) => pipeline.logFailure(error))
  return {
    listen: (target) => server.listen(target),
    drain() {
      watches.look()
      server.drain()
    },
    close: (graceMs) => server.close(graceMs),
  }
}

/** Longest interval between two checks of all connections. */
const MAX_SWEEP_MS = 250
const CLOSING_SWEEP_MS = 50

/** Serves gRPC calls on our own HTTP/2 layer. */
export class OwnGrpcServer implements ListenerServer {
  readonly #server: Server
  readonly #options: PortOptions
  readonly #context: Http2Context
  readonly #admitted: AdmittedConnections
  readonly #connections = new Map<Socket, GrpcConnection>()
  /** One timer checks all connections and their calls; it runs only while there are some. */
  #sweep: NodeJS.Timeout | undefined
  readonly #sweepMs: number

  /** `onFailure` is called when a method or the HTTP/2 layer fails. */
  constructor(methods: ReadonlyMap<string, GrpcMethod>, options: PortOptions, onFailure: (error: unknown) => void, limits = GRPC_LIMITS) {
    this.#options = options
    const { keepAliveMs, headersTimeoutMs, requestTimeoutMs } = options.timeouts
    this.#sweepMs = Math.max(1, Math.min(MAX_SWEEP_MS, keepAliveMs / 4, headersTimeoutMs / 4, requestTimeoutMs / 4))
    this.#context = new Http2Context(methods, limits, options.timeouts, onFailure)
    this.#admitted = new AdmittedConnections(options, NO_SLOT_OVER_HTTP2, {
      closeIdle: () => {
        for (const connection of this.#connections.values()) connection.closeIfIdle()
      },
      isServing: (socket) => this.#connections.get(socket)?.isServing === true,
    })
    this.#server = createServer((socket) => {
      this.#admitted.admit(socket, (admitted) => {
        this.#sweep ??= setInterval(() => this.#check(), this.#sweepMs).unref()
        this.#connections.set(admitted, new GrpcConnection(this.#context, admitted, () => void this.#connections.delete(admitted)))
      })
    })
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return listenOn(this.#server, target, this.#options.onAcceptError)
  }

  drain(): void {
    this.#context.isDraining = true
    for (const connection of this.#connections.values()) connection.leave()
  }

  async close(graceMs: number): Promise<void> {
    this.drain()
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const connection of this.#connections.values()) connection.close()
    clearInterval(this.#sweep)
    this.#sweep = setInterval(() => {
      this.#admitted.cutSilent(CLOSING_SWEEP_MS)
      this.#check()
    }, CLOSING_SWEEP_MS)
    const handshakeCut = setTimeout(() => this.#admitted.cutHandshakes(), Math.min(MAX_HEAD_GRACE_MS, graceMs))
    const cut = setTimeout(() => this.#admitted.cut(() => true), graceMs)
    await closed
    clearInterval(this.#sweep)
    clearTimeout(handshakeCut)
    clearTimeout(cut)
  }

  #check(): void {
    if (this.#connections.size === 0 && !this.#context.isDraining) {
      clearInterval(this.#sweep)
      this.#sweep = undefined
      return
    }
    const nowMs = performance.now()
    let unsentBytes = 0
    for (const connection of this.#connections.values()) {
      connection.check(nowMs)
      unsentBytes += connection.unsentBytes
    }
    if (unsentBytes > this.#context.limits.maxUnsentBytes) for (const connection of this.#connections.values()) connection.cutIfBehind()
  }
}
