import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { dispatch, type Endpoints } from './endpoints.ts'

// What a gateway may send along with its own request: as much as the common proxies take themselves.
const MAX_HEADER_BYTES = 64 * 1024

export interface ListenerOptions {
  readonly endpoints: Endpoints
  readonly keepAliveMs: number
  readonly onError: (res: ServerResponse, error: unknown) => void
}

/** One port and the endpoints behind it. */
export class HttpListener {
  readonly #server: Server
  #isDraining = false

  constructor({ endpoints, keepAliveMs, onError }: ListenerOptions) {
    const handle = (req: IncomingMessage, res: ServerResponse): void => {
      if (this.#isDraining) res.shouldKeepAlive = false
      dispatch(endpoints, req, res, onError)
    }
    this.#server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, keepAliveTimeout: keepAliveMs }, handle)
    // Node drops fields beyond its count without a word, and a limit key among them would slip its rule.
    this.#server.maxHeadersCount = 0
    // No body is ever read here, so none is invited; what follows on the connection cannot be told from it.
    this.#server.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
      res.shouldKeepAlive = false
      handle(req, res)
    })
  }

  /** Answers the port, which the system chose if it was 0. */
  listen(port: number, host: string | undefined): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ port, host }, () => {
        this.#server.off('error', reject)
        resolve((this.#server.address() as AddressInfo).port)
      })
    })
  }

  /** From now on every answer is the last on its connection. */
  drain(): void {
    this.#isDraining = true
  }

  /** Accepts nothing more, lets open requests finish, and cuts what is left after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.drain()
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    this.#server.closeIdleConnections()
    const graceOver = new AbortController()
    const cut = sleep(graceMs, undefined, { signal: graceOver.signal }).then(
      () => this.#server.closeAllConnections(),
      () => {}, // closed in time
    )
    await closed
    graceOver.abort()
    await cut
  }
}
