import type { Server } from 'node:http'
import { hasMember } from '../http/list-field.ts'
import type { Handle } from '../http/routes.ts'
import { HttpListener, type ListenerOptions, type PortOptions } from './http-listener.ts'
import { MalformedRequests } from './malformed-requests.ts'

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
