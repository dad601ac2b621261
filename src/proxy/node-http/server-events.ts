import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { listMembers } from '../../http1/header-fields.ts'
import { malformedStatus } from '../../listen/plain-listener.ts'
import { CLOSE_MS, malformedResponse } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'
import { type ClientConnections, EarlyBytes } from './client-connection.ts'
import { receivedHead } from './node-downstream.ts'

type Handle = (req: IncomingMessage, res: ServerResponse, early?: EarlyBytes) => void

interface ServerEventsParts {
  readonly clients: ClientConnections
  readonly handle: Handle
  /** Called when a request cannot be read, or is a CONNECT. */
  readonly onMalformed: (detail: string) => void
}

/**
 * Handles what Node's server emits besides ordinary requests: upgrades, CONNECT and bytes that it cannot parse. Remembers the connections that Node
 * has detached.
 */
export class ServerEvents {
  readonly #parts: ServerEventsParts
  readonly #own = new Set<Socket>()
  readonly #known = new WeakSet<Socket>()

  constructor(parts: ServerEventsParts) {
    this.#parts = parts
  }

  configure(server: Server): void {
    // Uploads may take as long as they need; one that stalls is cut by its own timeout.
    server.requestTimeout = 0
    // A client that has sent its request may close its side and still wait for the response.
    ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
    // RFC 9110 10.1.1: expectations other than 100-continue may be ignored. Without a listener, Node would respond with 417 itself.
    server.on('checkExpectation', (req, res) => this.#parts.handle(req, res))
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#refuseMalformed(error, socket))
    server.on('upgrade', (req: IncomingMessage, socket: Socket, early: Buffer) => this.#upgrade(server, req, socket, early))
    server.on('connect', (_req: IncomingMessage, socket: Socket) => this.#refuseConnect(socket))
  }

  /** Closes the connections that Node has detached. */
  close(): void {
    for (const socket of this.#own) socket.destroy()
  }

  #refuseMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
    const client = this.#parts.clients.of(socket)
    const isBroken = error.code === 'ECONNRESET' || error.code === 'EPIPE'
    // The response to the refused request closes the connection, whatever else arrives on it.
    if (client.isRefused && !isBroken) return
    const isSilent = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0
    if (!socket.writable || isBroken || isSilent) return void socket.destroy()
    const refuse = (): void => {
      this.#parts.onMalformed(error.message)
      this.#refuse(socket, malformedStatus(error), 'the request is malformed')
      client.giveUp()
    }
    const last = client.lastOpenRequest
    // The malformed bytes may be the body of the request that arrived last; otherwise they are a request of their own.
    if (last?.complete === false && !client.forgetLast()) {
      if (client.openResponse?.headersSent) return void socket.destroy()
      return refuse()
    }
    client.isRefused = true
    if (client.isBusy) client.wait(undefined, refuse)
    else refuse()
  }

  #refuseConnect(socket: Socket): void {
    const client = this.#parts.clients.of(socket)
    if (client.isRefused) return
    const refuse = (): void => {
      this.#parts.onMalformed('CONNECT')
      this.#refuse(socket, '405 Method Not Allowed', 'CONNECT is not supported')
    }
    if (!client.isBusy) return refuse()
    this.#adopt(socket)
    socket.resume()
    client.isRefused = true
    client.wait(undefined, refuse)
  }

  #refuse(socket: Socket, status: string, message: string): void {
    if (!socket.writable) return
    this.#adopt(socket)
    this.#parts.clients.of(socket).isRefused = true
    socket.end(malformedResponse(status, message))
    this.#linger(socket)
  }

  /** Once it has a listener, Node emits 'upgrade' for every request with an Upgrade field. */
  #upgrade(server: Server, req: IncomingMessage, socket: Socket, early: Buffer): void {
    const client = this.#parts.clients.of(socket)
    this.#adopt(socket)
    // RFC 9112 9.6: nothing is processed after the response that closes the connection
    if (client.isRefused || !socket.writable) return
    if (!client.isBusy) return this.#switch(server, req, socket, early)
    // RFC 9110 7.8: an upgrade must wait, because it would change the protocol under responses that are still being sent
    const bytes = new EarlyBytes(socket, early)
    client.wait(req, () => this.#switch(server, req, socket, bytes.take()))
  }

  #switch(server: Server, req: IncomingMessage, socket: Socket, early: Buffer): void {
    const request = ProxiedRequest.read(receivedHead(req), true)
    if (typeof request !== 'string' && !request.isUpgrade) return this.#asOrdinary(server, req, socket, early)
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket)
    const earlyBytes = new EarlyBytes(socket, early)
    res.once('finish', () => {
      earlyBytes.drop()
      socket.end()
      this.#linger(socket)
    })
    this.#parts.handle(req, res, earlyBytes)
  }

  /** Ignores a protocol that we do not offer (RFC 9110 7.8): the request is parsed again, without its Upgrade field. */
  #asOrdinary(server: Server, req: IncomingMessage, socket: Socket, early: Buffer): void {
    let head = `${req.method} ${req.url} HTTP/${req.httpVersion}\r\n`
    for (let i = 0; i < req.rawHeaders.length; i += 2) {
      const name = req.rawHeaders[i]!.toLowerCase()
      const value = name === 'connection' ? withoutUpgrade(req.rawHeaders[i + 1]!) : req.rawHeaders[i + 1]!
      if (name === 'upgrade' || (name === 'connection' && value === '')) continue
      head += `${req.rawHeaders[i]}: ${value}\r\n`
    }
    this.#own.delete(socket)
    const bytes = Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), early])
    const { hasEnded } = this.#parts.clients.of(socket)
    if (!hasEnded) socket.unshift(bytes)
    server.emit('connection', socket)
    // The socket of a request that had to wait is paused.
    if (!hasEnded) return void socket.resume()
    // The client ended its side while its request waited. A stream that has ended does not accept unshift, so its events are emitted again.
    socket.emit('data', bytes)
    socket.emit('end')
  }

  #adopt(socket: Socket): void {
    this.#own.add(socket)
    // A client that asks for other protocols again and again gets here each time.
    if (this.#known.has(socket)) return
    this.#known.add(socket)
    socket.on('error', () => {}) // 'close' follows
    // Node removes its listeners at an upgrade, but a response learns of its socket's 'drain' only through them.
    const client = this.#parts.clients.of(socket)
    socket.on('drain', () => client.openResponse?.emit('drain'))
    socket.once('close', () => this.#own.delete(socket))
  }

  #linger(socket: Socket): void {
    socket.resume()
    const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
    socket.once('close', () => clearTimeout(timer))
  }
}

function withoutUpgrade(connection: string): string {
  return listMembers(connection)
    .filter((name) => !/^(?:upgrade|http2-settings)$/i.test(name))
    .join(', ')
}
