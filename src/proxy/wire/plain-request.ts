import { pathOf } from '../../http/routes.ts'
import type { ReceivedHead } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'
import type { RequestHeadReader } from './request-head-reader.ts'

/** A request of a connection, from its head. Clients often send the same head again: then it is that of all these requests. */
export interface PlainRequest {
  /** The bytes of its head, the blank line included. */
  readonly text: string
  readonly received: ReceivedHead
  readonly request: ProxiedRequest
  readonly path: string
}

/** The one whose head was read last; undefined where something is wrong with it. */
export function plainRequest({ text, received }: RequestHeadReader): PlainRequest | undefined {
  const request = ProxiedRequest.read(received, false)
  return typeof request === 'string' ? undefined : { text, received, request, path: pathOf(request.target) }
}
