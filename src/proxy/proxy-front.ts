import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ServerConfig } from '../config/config.ts'
import { pathOf } from '../http/routes.ts'
import type { ConnectionPlaces } from '../listen/connection-places.ts'
import { HttpListener, type PortOptions } from '../listen/http-listener.ts'
import { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import { CounterFamily } from '../telemetry/metrics/counter-family.ts'
import { LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { Backend } from './backend/backend.ts'
import { BodyClaims } from './body-claims.ts'
import type { BodyMemory } from './body-memory.ts'
import { type ClientConnection, ClientConnections } from './client-connection.ts'
import { ProxiedRequest } from './proxied-request.ts'
import { type Handle, ProxyWire } from './proxy-wire.ts'
import { type Arrival, type ProxyParts, ReverseProxy } from './reverse-proxy.ts'
import type { EarlyBytes } from './tunnel.ts'
import { dropRest, LINGER_MS } from './unread-body.ts'

export type ProxyOptions = Pick<
  ServerConfig,
  | 'trustedProxies'
  | 'backendUrl'
  | 'backendHost'
  | 'backendConnectTimeoutMs'
  | 'backendHeadersTimeoutMs'
  | 'backendIdleTimeoutMs'
  | 'backendQueueMs'
  | 'maxBodyBytes'
>

type SharedParts = Pick<ProxyParts, 'pipeline' | 'engine' | 'clock' | 'logger'> & { readonly bodyMemory: BodyMemory }

/** The port of reverse_proxy and all that stands behind it. */
export class ProxyFront {
  readonly #proxy: ReverseProxy
  #wire: ProxyWire | undefined
  readonly #backend: Backend
  readonly #clients: ClientConnections
  #isDraining = false

  constructor(options: ProxyOptions, memory: MetricMemory, places: ConnectionPlaces, parts: SharedParts) {
    const backendMetrics = new BackendMetrics(memory)
    const backendOptions = {
      url: options.backendUrl!,
      connectTimeoutMs: options.backendConnectTimeoutMs,
      headersTimeoutMs: options.backendHeadersTimeoutMs,
      idleTimeoutMs: options.backendIdleTimeoutMs,
      queueMs: options.backendQueueMs,
    }
    this.#backend = new Backend(backendOptions, places, {
      onOpenConnections: (count) => {
        backendMetrics.connections.count = count
      },
      onQueueLength: (count) => {
        backendMetrics.queue.count = count
      },
      onQueueWait: (seconds) => backendMetrics.queueSeconds.observe(seconds),
    })
    this.#clients = new ClientConnections(options.trustedProxies)
    this.#proxy = new ReverseProxy({
      ...parts,
      backend: this.#backend,
      llmMetrics: new LlmMetrics(memory),
      backendMetrics,
      backendHost: options.backendHost,
      maxBodyBytes: options.maxBodyBytes,
      bodyClaims: new BodyClaims({
        memory: parts.bodyMemory,
        nowMs: () => parts.clock.nowMs(),
        heldBytes: new CounterFamily(memory, 'edge_proxy_body_memory_bytes').series(),
        waitingUploads: new CounterFamily(memory, 'edge_proxy_waiting_uploads').series(),
      }),
    })
  }

  /** Paths that are `isOwn` are answered here, all others go to the backend. */
  newListener(
    options: PortOptions,
    isOwn: (path: string) => boolean,
    answerOwn: (req: IncomingMessage, res: ServerResponse) => void,
  ): HttpListener {
    const begin = (client: ClientConnection, req: IncomingMessage, res: ServerResponse, early?: EarlyBytes): void => {
      if (this.#isDraining) res.shouldKeepAlive = false
      client.begin(res)
      const request = ProxiedRequest.read(req, early !== undefined)
      if (typeof request === 'string') {
        client.refuseRest()
        this.#proxy.refuse(res, 'bad_request', request)
      } else if (isOwn(pathOf(request.target))) {
        // None of them reads a body.
        if (request.hasBody) dropRest(req, res, LINGER_MS)
        answerOwn(req, res)
      } else this.#handle({ request, client, res, early })
    }
    const handle: Handle = (req, res, early) => {
      const client = this.#clients.of(req.socket)
      if (client.isRefused) return
      if (!client.isBusy) return begin(client, req, res, early)
      if (!client.wait(req, () => begin(client, req, res, early))) this.#proxy.noteMalformed('too many pipelined requests wait')
    }
    const wire = new ProxyWire({ clients: this.#clients, handle, onMalformed: (detail) => this.#proxy.noteMalformed(detail) })
    this.#wire = wire
    const configure = (server: Server): void => wire.configure(server)
    const isServing = (socket: Socket): boolean => this.#clients.isServing(socket)
    return new HttpListener({ ...options, handle, handleExpecting: handle, requiresHost: false, configure, isServing })
  }

  /** From now on every response is the last on its connection. */
  drain(): void {
    this.#isDraining = true
  }

  /** Ends the WebSockets that are still open. */
  cutTunnels(): void {
    this.#wire?.close()
  }

  /** To be called when no request is open any more. */
  close(): void {
    this.#backend.close()
  }

  #handle(arrival: Arrival): void {
    try {
      this.#proxy.handle(arrival)
    } catch (error) {
      this.#proxy.fail(arrival.res, error)
    }
  }
}
