import type { IncomingMessage } from 'node:http'
import type { Handle } from '../http/routes.ts'
import type { HttpListener, PortOptions } from '../listen/http-listener.ts'
import { newPlainListener } from '../listen/plain-listener.ts'
import { TimeShare } from '../time-share.ts'
import type { AdminEndpoints } from './admin-endpoints.ts'

/** Of a request's body, whoever reads it or not. */
const MAX_BODY_BYTES = 1024 * 1024

/** About one request: pipelined ones are parsed when there is time for them. */
const PIECE_BYTES = 1024
/** What parsing may take of a worker's time, beside what the requests themselves may. */
const PARSING_SHARE = 0.1
const PARSING_BURST_MS = 20

/** The listener of operators. `onClosing` ends responses that have no end of their own. */
export function newAdminServer(endpoints: AdminEndpoints, options: PortOptions, onClosing = (): void => {}): HttpListener {
  const handle: Handle = (req, res) => endpoints.handle(req, res, () => boundBody(req, endpoints))
  const share = new TimeShare(PARSING_SHARE, PARSING_BURST_MS, performance.now())
  return newPlainListener(options, handle, { parsing: { bytes: PIECE_BYTES, share }, onClosing })
}

/** To be called in the request's turn: until then nothing of the body is read. One that its route does not read is dropped, and an endless one would keep the worker busy. */
function boundBody(req: IncomingMessage, endpoints: AdminEndpoints): void {
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    endpoints.noteBody(chunk.length)
    if (bytes > MAX_BODY_BYTES) req.socket.destroy()
  })
}
