import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { headProblem } from '../http1/framing.ts'
import { hasMember } from '../http1/header-fields.ts'
import { HttpListener, type ListenerOptions, type PortOptions } from './http-listener.ts'
import { type Handle, respondText } from './node-http/routes.ts'

/** How long a connection may last after a CONNECT. Node no longer times or tracks it then. */
const CONNECT_MS = 5000

/** Creates a listener that sends no 100 Continue by itself: a client that waits for it is handled at once, and its response ends the connection. */
export function newPlainListener(
  options: PortOptions,
  handle: Handle,
  special: Pick<ListenerOptions, 'newFront' | 'parsing' | 'onClosing' | 'isProbe'> = {},
): HttpListener {
  const malformed = new MalformedRequests()
  const handleNoted: Handle = (req, res) => {
    malformed.note(req, res)
    const problem = headProblem(req.httpVersion, req.rawHeaders)
    if (problem !== undefined) {
      // What follows may be part of this request.
      res.shouldKeepAlive = false
      return respondText(res, 400, 'text/plain; charset=utf-8', `${problem}\n`)
    }
    // We offer no other protocol, but Node takes what follows such a request for the new protocol, and drops it, so the connection must end.
    // RFC 9110 7.8: Upgrade has no meaning unless Connection names it.
    if (req.headers.upgrade !== undefined && hasMember(req.headers.connection ?? '', 'upgrade')) res.shouldKeepAlive = false
    handle(req, res)
  }
  const handleExpecting: Handle = (req, res) => {
    res.shouldKeepAlive = false
    handleNoted(req, res)
  }
  const configure = (server: Server): void => {
    malformed.configure(server)
    // A client may close its side after its request and wait for the response, since the request may wait for its turn or for a store.
    ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
  }
  return new HttpListener({ ...options, handle: handleNoted, handleExpecting, configure, ...special })
}

/** Refuses malformed requests like Node, and CONNECT, but only after the responses to earlier requests, which Node would cut off. */
class MalformedRequests {
  /** The last response of each connection. Responses are sent in order, so it stands for all of them. */
  readonly #lastResponses = new WeakMap<Socket, ServerResponse>()

  configure(server: Server): void {
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      const last = this.#openResponse(socket)
      if (last === undefined) return refuse(socket, malformedStatus(error))
      // A malformed body needs no response of its own if the response to its request is under way.
      last.once('close', () => (last.req.complete ? refuse(socket, malformedStatus(error)) : socket.destroySoon()))
      if (awaitsBody(last))
        last.writeHead(Number.parseInt(malformedStatus(error), 10), ['Connection', 'close', 'Content-Length', '0']).end()
    })
    // Without a listener, Node would close the connection, and cut off the responses to earlier requests.
    server.on('connect', (_req: IncomingMessage, socket: Socket) => this.#refuseConnect(socket))
  }

  /** Must be called for every request. */
  note(req: IncomingMessage, res: ServerResponse): void {
    this.#lastResponses.set(req.socket, res)
  }

  /** Node has removed its listeners from the connection. */
  #refuseConnect(socket: Socket): void {
    socket.on('error', () => {}) // 'close' follows
    const timer = setTimeout(() => socket.destroy(), CONNECT_MS)
    socket.once('close', () => clearTimeout(timer)).resume()
    const last = this.#openResponse(socket)
    if (last === undefined) return refuse(socket, NO_CONNECT)
    socket.on('drain', () => last.emit('drain'))
    last.once('close', () => refuse(socket, NO_CONNECT))
  }

  /** The response that the next one on this connection has to wait for. */
  #openResponse(socket: Socket): ServerResponse | undefined {
    const last = this.#lastResponses.get(socket)
    return last === undefined || last.closed || !socket.writable ? undefined : last
  }
}

/** Whether the response waits for the rest of a body, which will never come. */
function awaitsBody({ headersSent, req }: ServerResponse): boolean {
  return !headersSent && !req.complete && req.readableFlowing === true
}

const NO_CONNECT = '405 Method Not Allowed'

function refuse(socket: Socket, status: string): void {
  if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)
  socket.destroySoon()
}

/** Responses to errors of Node's parser and its timeouts, by error code. All others are a 400. */
const STATUSES: ReadonlyMap<string, string> = new Map([
  ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Payload Too Large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout'],
])

/** Returns the status and reason phrase for something that `node:http` could not read as a request. */
export function malformedStatus({ code = '' }: NodeJS.ErrnoException): string {
  return STATUSES.get(code) ?? '400 Bad Request'
}
