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
  /** Paths that this server's own endpoints serve. */
  readonly isOwn: (path: string) => boolean
  readonly handleOwn: ListenerOptions['handle']
  readonly handle: (request: ProxiedRequest, downstream: Downstream) => void
  /** A request that can be read in two ways. */
  readonly refuse: (downstream: Downstream, detail: string) => void
  /** How long a client may take nothing of its response; 0: for ever. */
  readonly stallMs: number
  /** Something came that is no request, and has its response already. */
  readonly noteMalformed: (detail: string) => void
  /** Undefined: `node:http` reads everything. */
  readonly newWire?: ((handOver: (socket: Socket) => void) => ProxyWire) | undefined
}

/** Receives requests through `node:http`: one of a connection at a time, each with a Downstream of its own. */
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
    const { newWire } = this.#options
    let wire: ProxyWire | undefined
    const newFront = newWire && ((handOver: (socket: Socket) => void): ProxyWire => (wire = newWire(handOver)))
    const isServing = (socket: Socket): boolean => this.#clients.isServing(socket) || (wire?.connectionOf(socket)?.isServing ?? false)
    return new HttpListener({ ...options, handle, handleExpecting: handle, requiresHost: false, configure, isServing, newFront })
  }

  /** From now on every response that begins is the last on its connection. */
  drain(): void {
    this.#isDraining = true
  }

  /** Ends the WebSockets that are still open. */
  cutTunnels(): void {
    this.#events.close()
  }

  #handle(req: IncomingMessage, res: ServerResponse, early?: EarlyBytes): void {
    const client = this.#clients.of(req.socket)
    // RFC 9112 9.6: nothing is processed after the response that closes the connection, though the rest of a request may still be read
    if (client.isRefused || !req.socket.writable) return
    if (!client.isBusy) return this.#begin(client, req, res, early)
    if (!client.wait(req, () => this.#begin(client, req, res, early))) this.#options.noteMalformed('too many pipelined requests wait')
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
      // None of them reads a body.
      if (request.hasBody) downstream.dropBody(LINGER_MS)
      res.once('prefinish', () => downstream.watchEnd())
      handleOwn(req, res)
    } else handle(request, downstream)
  }
}
