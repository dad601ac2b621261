import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { HttpListener, type ListenerOptions, type PortOptions } from '../../listen/http-listener.ts'
import { pathOf } from '../../listen/node-http/routes.ts'
import { type Downstream, LINGER_MS, type PeerOf } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'
import type { ProxyWire } from '../wire/wire-client.ts'
import { type ClientConnection, ClientConnections, type EarlyBytes } from './client-connection.ts'
import { NodeDownstream } from './node-downstream.ts'
import { ServerEvents } from './server-events.ts'

export interface NodeServerOptions {
  readonly peerOf: PeerOf
  /** Whether this server's own endpoints serve the path. */
  readonly isOwn: (path: string) => boolean
  readonly handleOwn: ListenerOptions['handle']
  readonly handle: (request: ProxiedRequest, downstream: Downstream) => void
  /** Refuses a request that can be read in two ways. */
  readonly refuse: (downstream: Downstream, detail: string) => void
  /** How long a client may take nothing of its response; 0 means no limit. */
  readonly stallMs: number
  /** Called when bytes that are not a request are refused, or when a connection is cut for too many pipelined requests. */
  readonly noteMalformed: (detail: string) => void
  /** If undefined, `node:http` reads everything. */
  readonly newWire?: ((handOver: (socket: Socket) => void) => ProxyWire) | undefined
}

/** Receives requests through `node:http`, one at a time on each connection, each with a Downstream of its own. */
export class NodeServer {
  readonly #options: NodeServerOptions
  readonly #clients: ClientConnections
  readonly #events: ServerEvents
  #isDraining = false
  readonly #drains = (): boolean => this.#isDraining

  constructor(options: NodeServerOptions) {
    this.#options = options
    this.#clients = new ClientConnections(options.peerOf)
    this.#events = new ServerEvents({
      clients: this.#clients,
      handle: (req, res, early) => this.#handle(req, res, early),
      onMalformed: options.noteMalformed,
    })
  }

  newListener(options: PortOptions): HttpListener {
    const handle: ListenerOptions['handle'] = (req, res) => this.#handle(req, res)
    const configure = (server: Server): void => this.#events.configure(server)
    const { newWire: newFront } = this.#options
    const isServing = (socket: Socket): boolean => this.#clients.isServing(socket)
    return new HttpListener({ ...options, handle, handleExpecting: handle, configure, isServing, newFront })
  }

  /** Makes every response that begins from now on the last on its connection. */
  drain(): void {
    this.#isDraining = true
  }

  /** Closes the WebSockets that are still open. */
  cutTunnels(): void {
    this.#events.close()
  }

  #handle(req: IncomingMessage, res: ServerResponse, early?: EarlyBytes): void {
    const client = this.#clients.of(req.socket)
    // RFC 9112 9.6: nothing is processed after the response that closes the connection, though the rest of a request may still be read
    if (client.isRefused || !req.socket.writable) return
    if (!client.isBusy) return this.#begin(client, req, res, early)
    if (!client.wait(req, () => this.#begin(client, req, res, early))) this.#options.noteMalformed('too many pipelined requests')
  }

  #begin(client: ClientConnection, req: IncomingMessage, res: ServerResponse, early: EarlyBytes | undefined): void {
    const { isOwn, handleOwn, handle, refuse, stallMs } = this.#options
    const downstream = new NodeDownstream({ connection: client, req, res, early, isDraining: this.#drains, stallMs })
    if (this.#isDraining) downstream.closeWhenDone()
    client.begin(res, downstream)
    const request = ProxiedRequest.read(downstream.received, downstream.canUpgrade)
    if (typeof request === 'string') {
      client.refuseRest()
      refuse(downstream, request)
    } else if (isOwn(pathOf(request.target))) {
      // None of these endpoints reads a body.
      if (request.hasBody) downstream.dropBody(LINGER_MS)
      res.once('prefinish', () => downstream.watchEnd())
      handleOwn(req, res)
    } else handle(request, downstream)
  }
}
