import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Owner } from '../service/running.ts'
import { until } from '../until.ts'

export interface SeenRequest {
  readonly url: string
  readonly headers: IncomingHttpHeaders
}

export type Respond = (req: IncomingMessage, res: ServerResponse) => void

export interface PublishOptions {
  readonly signature?: string
  readonly type?: string
  readonly etag?: string
}

/** A real server that bundles are fetched from, and whose answers a test chooses. */
export class BundleServer {
  readonly requests: SeenRequest[] = []
  readonly #server: Server
  /** Up to the port. */
  readonly #base: string
  respond: Respond = (_req, res) => void res.writeHead(404).end()

  private constructor(server: Server, base: string) {
    this.#server = server
    this.#base = base
    server.on('request', (req, res) => {
      this.requests.push({ url: req.url!, headers: req.headers })
      this.respond(req, res)
    })
  }

  static async start(
    owner: Owner = { onTestFinished },
    tls?: { readonly key: Buffer; readonly cert: Buffer },
    address = '127.0.0.1',
  ): Promise<BundleServer> {
    const server = tls === undefined ? createServer() : createTlsServer(tls)
    const self = new BundleServer(server, tls === undefined ? `http://${address}` : 'https://localhost')
    server.on('tlsClientError', () => {}) // those who do not trust it
    await new Promise<void>((resolve) => server.listen(0, address, resolve))
    owner.onTestFinished(() => self.stop())
    return self
  }

  get origin(): string {
    return `${this.#base}:${(this.#server.address() as AddressInfo).port}`
  }

  get url(): string {
    return `${this.origin}/bundle`
  }

  /** Serves this bundle, with 304 for those who have it. */
  publish(content: object | string | Buffer, { signature, type = 'application/json', etag }: PublishOptions = {}): void {
    const body = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content)
    const headers = {
      'Content-Type': type,
      ...(signature === undefined ? {} : { 'X-Edge-Signature': signature }),
      ...(etag === undefined ? {} : { ETag: etag }),
    }
    this.respond = (req, res) => {
      if (etag !== undefined && req.headers['if-none-match'] === etag) res.writeHead(304, { ETag: etag }).end()
      else res.writeHead(200, { ...headers, 'Content-Length': Buffer.byteLength(body) }).end(body)
    }
  }

  /** Waits until so many more requests have come. */
  async polled(times = 1): Promise<void> {
    const enough = this.requests.length + times
    await until(() => this.requests.length >= enough)
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
