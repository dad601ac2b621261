import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { ServerConfig } from '../../config.ts'
import { Backend } from '../backend/backend.ts'
import { pathOf } from '../endpoints.ts'
import { HttpListener } from '../http-listener.ts'
import { BackendMetrics } from '../metrics/backend-metrics.ts'
import type { ProxyMetricSources } from '../metrics/exposition.ts'
import { LlmMetrics } from '../metrics/llm-metrics.ts'
import { Peers } from './peer.ts'
import { type Handle, ProxyWire } from './proxy-wire.ts'
import { type ProxyParts, ReverseProxy } from './reverse-proxy.ts'

export type ProxyOptions = Pick<
  ServerConfig,
  | 'trustedProxies'
  | 'backendUrl'
  | 'backendHost'
  | 'backendConnectTimeoutMs'
  | 'backendHeadersTimeoutMs'
  | 'backendIdleTimeoutMs'
  | 'maxBodyBytes'
>

/** The port of reverse_proxy and all that stands behind it. */
export class ProxyFront {
  readonly metrics: ProxyMetricSources
  readonly #proxy: ReverseProxy
  #wire: ProxyWire | undefined
  readonly #backend: Backend

  constructor(options: ProxyOptions, parts: Pick<ProxyParts, 'engine' | 'clock' | 'logger' | 'decisions' | 'debugSessions'>) {
    this.#backend = new Backend({
      url: options.backendUrl!,
      connectTimeoutMs: options.backendConnectTimeoutMs,
      headersTimeoutMs: options.backendHeadersTimeoutMs,
      idleTimeoutMs: options.backendIdleTimeoutMs,
    })
    const llmMetrics = new LlmMetrics()
    const backendMetrics = new BackendMetrics()
    this.metrics = { llm: llmMetrics, backend: backendMetrics, backendConnections: () => this.#backend.openConnections }
    this.#proxy = new ReverseProxy({
      ...parts,
      backend: this.#backend,
      peers: new Peers(options.trustedProxies),
      llmMetrics,
      backendMetrics,
      backendHost: options.backendHost,
      maxBodyBytes: options.maxBodyBytes,
    })
  }

  /** Paths that are `isOwn` are answered here, all others go to the backend. */
  newListener(
    keepAliveMs: number,
    isOwn: (path: string) => boolean,
    answerOwn: (req: IncomingMessage, res: ServerResponse) => void,
  ): HttpListener {
    const handle: Handle = (req, res, early) => {
      if (isOwn(pathOf(req.url!))) answerOwn(req, res)
      else this.#handle(req, res, early)
    }
    const wire = new ProxyWire(handle, (detail) => this.#proxy.noteMalformed(detail))
    this.#wire = wire
    const configure = (server: Server): void => wire.configure(server)
    return new HttpListener({ keepAliveMs, handle, handleExpecting: handle, requiresHost: false, configure })
  }

  /** Ends the WebSockets that are still open. */
  cutTunnels(): void {
    this.#wire?.close()
  }

  /** To be called when no request is open any more. */
  close(): void {
    this.#backend.close()
  }

  #handle(req: IncomingMessage, res: ServerResponse, early?: Buffer): void {
    try {
      this.#proxy.handle(req, res, early)
    } catch (error) {
      this.#proxy.fail(res, error)
    }
  }
}
