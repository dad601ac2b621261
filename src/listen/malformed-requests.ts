import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { malformedStatus } from '../http/malformed-status.ts'

/** Refuses what is no request as Node would, but after the responses before it: Node would cut those off. */
export class MalformedRequests {
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
