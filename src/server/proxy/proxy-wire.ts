import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { ProxiedRequest } from './proxied-request.ts'

export type Handle = (req: IncomingMessage, res: ServerResponse, early?: Buffer) => void

/** What a proxy needs of its server beyond ordinary requests. Remembers the connections that Node has let go of. */
export class ProxyWire {
  readonly #handle: Handle
  readonly #onMalformed: (detail: string) => void
  readonly #upgraded = new Set<Socket>()

  constructor(handle: Handle, onMalformed: (detail: string) => void) {
    this.#handle = handle
    this.#onMalformed = onMalformed
  }

  configure(server: Server): void {
    // Uploads take as long as they take; one that stops is cut by its own silence.
    server.requestTimeout = 0
    // A client that has sent its request may close its side and wait for the answer.
    ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
    // Pipelined requests all listen to their one connection.
    server.on('connection', (socket) => socket.setMaxListeners(0))
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#answerMalformed(error, socket))
    server.on('upgrade', (req: IncomingMessage, socket: Socket, early: Buffer) => this.#upgrade(server, req, socket, early))
    server.on('connect', (_req: IncomingMessage, socket: Socket) => {
      socket.on('error', () => {}).end('HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
    })
  }

  /** Cuts the connections that became another protocol's. */
  close(): void {
    for (const socket of this.#upgraded) socket.destroy()
  }

  #answerMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
    const answer = answerOn(socket)
    // What is malformed may be the body of the request at hand; any other answer on its way would be taken for this one.
    const isFree = answer === undefined || (!answer.headersSent && !answer.req.complete)
    if (!socket.writable || error.code === 'ECONNRESET' || !isFree) return void socket.destroy()
    this.#onMalformed(error.message)
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request'
    const body = JSON.stringify({ error: { message: 'the request is malformed', type: 'invalid_request_error', code: 'bad_request' } })
    const fields = `X-Edge-Reason: bad_request\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`
    socket.end(`HTTP/1.1 ${status}\r\n${fields}\r\n${body}`)
  }

  /** Node calls here for every request with an Upgrade field, once somebody listens. */
  #upgrade(server: Server, req: IncomingMessage, socket: Socket, early: Buffer): void {
    socket.on('error', () => {}) // its 'close' follows
    // RFC 9110 7.8: it would change the protocol under answers that are still on their way
    if (answerOn(socket) !== undefined) return void socket.destroy()
    const request = ProxiedRequest.read(req)
    if (typeof request !== 'string' && !request.isUpgrade) return this.#asOrdinary(server, req, socket, early)
    this.#upgraded.add(socket)
    socket.once('close', () => this.#upgraded.delete(socket))
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket)
    res.once('finish', () => socket.end())
    this.#handle(req, res, early)
  }

  /** A protocol that we do not offer (RFC 9110 7.8): the request is read once more, as if it had not asked. */
  #asOrdinary(server: Server, req: IncomingMessage, socket: Socket, early: Buffer): void {
    let head = `${req.method} ${req.url} HTTP/${req.httpVersion}\r\n`
    for (let i = 0; i < req.rawHeaders.length; i += 2) {
      const name = req.rawHeaders[i]!.toLowerCase()
      const value = name === 'connection' ? withoutUpgrade(req.rawHeaders[i + 1]!) : req.rawHeaders[i + 1]!
      if (name === 'upgrade' || (name === 'connection' && value === '')) continue
      head += `${req.rawHeaders[i]}: ${value}\r\n`
    }
    socket.unshift(Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), early]))
    server.emit('connection', socket)
  }
}

/** The answer that is on its way on this connection. Node keeps it there and offers no other way to ask. */
function answerOn(socket: Socket): ServerResponse | undefined {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined
}

function withoutUpgrade(connection: string): string {
  const names = connection.split(',').map((name) => name.trim())
  return names.filter((name) => !/^(?:upgrade|http2-settings)$/i.test(name)).join(', ')
}
