import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { ConnectionShares } from './connection-shares.ts'

// What a gateway may send along with its own request: as much as the common proxies take themselves.
const MAX_HEADER_BYTES = 64 * 1024
const SWEEP_MS = 50

export interface ListenerOptions {
  readonly keepAliveMs: number
  readonly handle: (req: IncomingMessage, res: ServerResponse) => void
  /** A client that waits for leave to send its body. */
  readonly handleExpecting: (req: IncomingMessage, res: ServerResponse) => void
  /** Whether Node itself answers HTTP/1.1 requests without Host; else the handler sees them. */
  readonly requiresHost: boolean
  readonly shares: ConnectionShares
  /** Anything else that this port needs of its server. */
  readonly configure?: (server: Server) => void
}

/** A port of our own, or a descriptor of one that is bound already and shared with others. */
export type ListenOn = { readonly port: number; readonly host: string | undefined } | { readonly fd: number }

/** One port. */
export class HttpListener {
  readonly #server: Server
  #isDraining = false

  constructor({ keepAliveMs, handle, handleExpecting, requiresHost, shares, configure }: ListenerOptions) {
    const draining = (handler: typeof handle): typeof handle => {
      return (req, res) => {
        if (this.#isDraining) res.shouldKeepAlive = false
        handler(req, res)
      }
    }
    this.#server = createServer(
      { maxHeaderSize: MAX_HEADER_BYTES, keepAliveTimeout: keepAliveMs, requireHostHeader: requiresHost },
      draining(handle),
    )
    // Node drops fields beyond its count without a word, and a limit key among them would slip its rule.
    this.#server.maxHeadersCount = 0
    this.#server.on('checkContinue', draining(handleExpecting))
    configure?.(this.#server)
    this.#server.on('connection', (socket: Socket) => {
      socket.once('close', () => shares.closed())
      shares.opened()
    })
  }

  /** Answers the port, which the system chose if it was 0. */
  listen(on: ListenOn): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(on, () => {
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
  async close(graceMs: number, cutRest: () => void = () => {}): Promise<void> {
    this.drain()
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    // Connections whose last answer promised to keep them become idle one by one.
    this.#server.closeIdleConnections()
    const sweep = setInterval(() => this.#server.closeIdleConnections(), SWEEP_MS)
    const graceOver = new AbortController()
    const cut = sleep(graceMs, undefined, { signal: graceOver.signal }).then(
      () => {
        this.#server.closeAllConnections()
        cutRest()
      },
      () => {}, // closed in time
    )
    await closed
    clearInterval(sweep)
    graceOver.abort()
    await cut
    // What listens to the last connections has its turn before anybody goes on.
    await turn()
  }
}
