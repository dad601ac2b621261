import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { hasMember } from '../http1/header-fields.ts'
import { malformedStatus } from '../http1/request-line.ts'
import { HttpListener, type ListenerOptions, type PortOptions } from './http-listener.ts'
import type { Handle } from './node-http/routes.ts'

/** A listener that invites no bodies: a client that waits for leave to send one gets its response at once, the last on its connection. */
export function newPlainListener(
  options: PortOptions,
  handle: Handle,
  special: Pick<ListenerOptions, 'newFront' | 'parsing' | 'onClosing'> = {},
): HttpListener {
  const malformed = new MalformedRequests()
  const handleNoted: Handle = (req, res) => {
    malformed.note(req, res)
    // No protocol is offered, but what came with such a request Node takes for the protocol, and drops it.
    // RFC 9110 7.8: Upgrade means nothing where Connection does not name it.
    if (req.headers.upgrade !== undefined && hasMember(req.headers.connection ?? '', 'upgrade')) res.shouldKeepAlive = false
    handle(req, res)
  }
  const handleExpecting: Handle = (req, res) => {
    res.shouldKeepAlive = false
    handleNoted(req, res)
  }
  const configure = (server: Server): void => {
    malformed.configure(server)
    // A client that has sent its request may close its side and wait: a request may have to wait for its turn, or for a store.
    ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
  }
  return new HttpListener({ ...options, handle: handleNoted, handleExpecting, requiresHost: true, configure, ...special })
}

/** Refuses what is no request as Node would, but after the responses before it: Node would cut those off. */
class MalformedRequests {
  /** Responses go out in order, so the last one stands for all. */
  readonly #lastResponses = new WeakMap<Socket, ServerResponse>()

  configure(server: Server): void {
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      const last = this.#lastResponses.get(socket)
      if (last === undefined || last.closed || !socket.writable) return refuse(socket, error)
      // What is malformed in the body of a request whose response is under way needs no response of its own.
      last.once('close', () => (last.req.complete ? refuse(socket, error) : socket.destroySoon()))
      if (awaitsBody(last))
        last.writeHead(Number.parseInt(malformedStatus(error), 10), ['Connection', 'close', 'Content-Length', '0']).end()
    })
  }

  /** To be called for every request. */
  note(req: IncomingMessage, res: ServerResponse): void {
    this.#lastResponses.set(req.socket, res)
  }
}

/** Whether the response waits for a body, of which no more will come. */
function awaitsBody({ headersSent, req }: ServerResponse): boolean {
  return !headersSent && !req.complete && req.readableFlowing === true
}

function refuse(socket: Socket, error: NodeJS.ErrnoException): void {
  if (socket.writable) socket.write(`HTTP/1.1 ${malformedStatus(error)}\r\nConnection: close\r\n\r\n`)
  socket.destroySoon()
}
