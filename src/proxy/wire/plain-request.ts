import { pathOf } from '../../http/routes.ts'
import type { ReceivedHead } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'

/** A request of a connection, from its head. Clients often send the same head again: then one object serves all these requests. */
export interface PlainProxyRequest {
  readonly received: ReceivedHead
  readonly request: ProxiedRequest
  readonly path: string
}

/** Returns undefined where something is wrong with the head. */
export function plainRequest(received: ReceivedHead): PlainProxyRequest | undefined {
  const request = ProxiedRequest.read(received, false)
  return typeof request === 'string' ? undefined : { received, request, path: pathOf(request.target) }
}
