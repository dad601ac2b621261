import type { IncomingMessage, ServerResponse } from 'node:http'
import { respondEmpty, respondText } from './respond.ts'

export interface Endpoint {
  readonly methods: readonly string[]
  handle(req: IncomingMessage, res: ServerResponse): void | Promise<void>
}

/** By path. */
export type Endpoints = ReadonlyMap<string, Endpoint>

/** Hands a request to its endpoint. Whatever an endpoint throws reaches `onError`, never the process. */
export function dispatch(
  endpoints: Endpoints,
  req: IncomingMessage,
  res: ServerResponse,
  onError: (res: ServerResponse, error: unknown) => void,
): void {
  const endpoint = endpoints.get(pathOf(req.url!))
  if (endpoint === undefined) return respondText(res, 404, 'text/plain; charset=utf-8', 'no such endpoint\n')
  if (!endpoint.methods.includes(req.method!)) return respondEmpty(res, 405, ['Allow', endpoint.methods.join(', ')])
  try {
    endpoint.handle(req, res)?.catch((error: unknown) => onError(res, error))
  } catch (error) {
    onError(res, error)
  }
}

/** A target's path, as it is written. */
export function pathOf(target: string): string {
  // RFC 9112 3.2.2: a server accepts the absolute form too
  const path = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '')
  const query = path.indexOf('?')
  return query < 0 ? path : path.slice(0, query)
}
