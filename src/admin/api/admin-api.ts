import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http1/header-fields.ts'
import { originForm, pathOf } from '../../listen/node-http/routes.ts'
import { MAX_OPEN_BYTES } from '../admin-server.ts'
import type { Access, Asker } from './access.ts'
import { ApiError, ClientGone, errorBody, ReadOnly } from './api-error.ts'
import { parseQuery, readJsonBody } from './api-request.ts'
import type { ApiRequest, ApiResponse, ApiRoute } from './api-route.ts'

export const API_PATH = '/admin/v1/'
/** On every response, with or without the token: a client can tell the admin API from anything else before it sends the token. */
const IDENTITY = ['X-Edge-Admin', 'v1'] as const

/** Who asks where anybody may. */
const UNKNOWN: Asker = { actor: 'unknown', isReadOnly: false }

/** The API through which operators observe and change the running service: JSON below `/admin/v1/`, for those who have the token. */
export class AdminApi {
  readonly routes: readonly ApiRoute[]
  readonly #access: Access

  constructor(access: Access, routes: Iterable<ApiRoute>) {
    this.#access = access
    this.routes = [...routes]
  }

  /** Nobody learns without the token which paths exist. If our own code fails, this responds and then rejects. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.setHeader(...IDENTITY)
    let asker: Asker | undefined
    try {
      const path = pathOf(req.url!).slice(API_PATH.length)
      const open = this.routes.find((route) => route.isOpen === true && covers(route, path) && route.method === req.method)
      asker = open === undefined ? this.#access.check(req) : UNKNOWN
      const route = open ?? this.#find(req, path)
      if (asker.isReadOnly && !isForReaders(route)) throw new ReadOnly('a change')
      const body = route.method === 'POST' || route.method === 'PATCH' ? await readJsonBody(req, route.isOpen && MAX_OPEN_BYTES) : {}
      respond(res, await route.handle(requestOf(req, path.slice(route.path.length, path.length - (route.tail?.length ?? 0)), body, asker)))
    } catch (error) {
      // A response that has begun says already that the body was too large.
      if (error instanceof ClientGone || (error instanceof ApiError && res.headersSent)) return
      if (res.headersSent) throw error
      if (asker === undefined && mayBeLarge(req)) res.shouldKeepAlive = false
      if (error instanceof ApiError) return respondError(res, error)
      respondError(res, new ApiError('internal_error', 'internal error; the log has its cause, as event admin_failed'))
      throw error
    }
  }

  #find({ method }: IncomingMessage, path: string): ApiRoute {
    const covering = this.routes.filter((route) => covers(route, path))
    // `overrides/history` is no override called history, whatever the method.
    const closest = Math.max(...covering.map(fixedCharacters))
    const found = covering.filter((route) => fixedCharacters(route) === closest)
    if (found.length === 0) throw new ApiError('not_found', `no such path below ${API_PATH}; openapi.json lists all paths`)
    const route = found.find((one) => one.method === method)
    if (route === undefined) throw new MethodNotAllowed([...new Set(found.map((one) => one.method))])
    return route
  }
}

class MethodNotAllowed extends ApiError {
  readonly allow: string

  constructor(methods: readonly string[]) {
    const allow = methods.join(', ')
    super('method_not_allowed', `expected ${allow}`)
    this.allow = allow
  }
}

/** Whether reading the body of a stranger would take long. */
function mayBeLarge({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > MAX_OPEN_BYTES
}

function isForReaders({ method, isForReaders }: ApiRoute): boolean {
  return method === 'GET' || isForReaders === true
}

function covers({ path, tail = '' }: ApiRoute, asked: string): boolean {
  if (!path.endsWith('/')) return asked === path
  return asked.startsWith(path) && asked.endsWith(tail) && asked.length > path.length + tail.length
}

function fixedCharacters({ path, tail = '' }: ApiRoute): number {
  return path.length + tail.length
}

function requestOf(req: IncomingMessage, rest: string, body: ApiRequest['body'], asker: Asker): ApiRequest {
  const query = parseQuery(originForm(req.url!).slice(pathOf(req.url!).length))
  return { ...asker, rest, query, body, http: req }
}

function respond(res: ServerResponse, response: ApiResponse): void {
  if ('stream' in response) return response.stream(res)
  const { status, headers = [] } = response
  if ('json' in response) return write(res, status, JSON.stringify(response.json), headers)
  if ('text' in response) {
    const { text, onClosed = () => {} } = response
    if (res.closed || res.destroyed) onClosed()
    else res.once('close', onClosed)
    return write(res, status, text, headers)
  }
  res.writeHead(status, [...headers, 'Cache-Control', 'no-store']).end()
}

function respondError(res: ServerResponse, error: ApiError): void {
  const headers: HeaderList = []
  if (error instanceof MethodNotAllowed) headers.push('Allow', error.allow)
  // RFC 9110 15.5.2 requires this field. Browsers show no dialog for this scheme.
  if (error.code === 'unauthorized') headers.push('WWW-Authenticate', 'Bearer')
  if (error.code === 'too_many_attempts') headers.push('Retry-After', '60')
  write(res, error.status, JSON.stringify(errorBody(error)), headers)
}

function write(res: ServerResponse, status: number, text: string | Buffer, headers: HeaderList): void {
  const length = String(Buffer.byteLength(text))
  const own = [
    'Content-Type',
    'application/json',
    'Content-Length',
    length,
    'Cache-Control',
    'no-store',
    'X-Content-Type-Options',
    'nosniff',
  ]
  res.writeHead(status, [...headers, ...own])
  res.end(text)
}
