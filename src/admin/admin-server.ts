import type { IncomingMessage } from 'node:http'
import type { Handle } from '../http/routes.ts'
import type { HttpListener, PortOptions } from '../listen/http-listener.ts'
import { newPlainListener } from '../listen/plain-listener.ts'
import type { AdminEndpoints } from './admin-endpoints.ts'

/** Of a request's body, whoever reads it or not. */
const MAX_BODY_BYTES = 64 * 1024

/** About one request: pipelined ones are parsed when there is time for them. */
const MAX_READ_BYTES = 1024

/** The listener of operators. */
export function newAdminServer(endpoints: AdminEndpoints, options: PortOptions): HttpListener {
  const handle: Handle = (req, res) => {
    boundBody(req)
    endpoints.handle(req, res)
  }
  return newPlainListener(options, handle, { maxReadBytes: MAX_READ_BYTES })
}

/** A body that nobody reads is read on and dropped, so that the connection can go on: an endless one would keep the worker busy. */
function boundBody(req: IncomingMessage): void {
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) req.socket.destroy()
  })
}
