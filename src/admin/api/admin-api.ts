import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { headerValue } from '../../http/raw-headers.ts'
import { respondEmpty, respondText } from '../../http/respond.ts'
import { originForm, pathOf } from '../../http/routes.ts'
import type { WrongSecrets } from '../wrong-secrets.ts'
import type { AdminToken } from './admin-token.ts'
import { ApiError, errorBody } from './api-error.ts'
import type { ApiRequest, ApiResponse, ApiRoute } from './api-route.ts'
import { readJsonBody } from './json-body.ts'

export const API_PATH = '/admin/v1/'

/** Wrong tokens of one peer in a minute: beyond them nothing is logged. */
const MAX_WRONG_TOKENS = 10
/** Of an actor's name. */
const MAX_ACTOR_CHARACTERS = 128

export interface AdminApiParts {
  readonly token: AdminToken
  readonly wrongSecrets: WrongSecrets
  readonly logger: Logger
  readonly nowMs: () => number
}

/** What operators see and change while the service runs: JSON below `/admin/v1/`, for those who have the token. */
export class AdminApi {
  readonly #parts: AdminApiParts
  readonly #routes: readonly ApiRoute[]

  constructor(parts: AdminApiParts, routes: Iterable<ApiRoute>) {
    this.#parts = parts
    this.#routes = [...routes]
  }

  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      this.#authenticate(req)
      const { route, rest } = this.#find(req, pathOf(req.url!).slice(API_PATH.length))
      const body = route.method === 'POST' ? await readJsonBody(req) : {}
      respond(res, await route.handle(requestOf(req, rest, body)))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      respondError(res, error)
    }
  }

  /** The right token always passes, however many wrong ones came before. */
  #authenticate(req: IncomingMessage): void {
    const { token, wrongSecrets, logger, nowMs } = this.#parts
    if (token.isIn(headerValue(req.rawHeaders, 'authorization'))) return
    const count = wrongSecrets.add(req.socket.remoteAddress, nowMs())
    if (count > MAX_WRONG_TOKENS) throw new ApiError('too_many_attempts', 'too many wrong tokens: try again in a minute')
    logger.warn({ event: 'admin_refused' }, 'a request to the admin API was refused: no token, or a wrong one')
    throw new ApiError('unauthorized', 'send the admin token as Authorization: Bearer TOKEN')
  }

  #find({ method }: IncomingMessage, path: string): { route: ApiRoute; rest: string } {
    const found = this.#routes.filter((route) => covers(route, path))
    if (found.length === 0) throw new ApiError('not_found', `there is no ${API_PATH}${path}`)
    const route = found.find((one) => one.method === method)
    if (route === undefined) throw new MethodNotAllowed(found.map((one) => one.method))
    return { route, rest: path.slice(route.path.length) }
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

function covers({ path }: ApiRoute, asked: string): boolean {
  return path.endsWith('/') ? asked.startsWith(path) && asked.length > path.length : asked === path
}

function requestOf(req: IncomingMessage, rest: string, body: ApiRequest['body']): ApiRequest {
  const target = originForm(req.url!)
  const query = new URLSearchParams(target.slice(pathOf(req.url!).length))
  const actor = (headerValue(req.rawHeaders, 'x-edge-actor') || 'unknown').slice(0, MAX_ACTOR_CHARACTERS)
  return { rest, query, body, actor }
}

function respond(res: ServerResponse, response: ApiResponse): void {
  if ('stream' in response) return response.stream(res)
  if ('json' in response) return respondText(res, response.status, 'application/json', JSON.stringify(response.json))
  respondEmpty(res, response.status)
}

function respondError(res: ServerResponse, error: ApiError): void {
  if (error instanceof MethodNotAllowed) res.setHeader('Allow', error.allow)
  const text = JSON.stringify(errorBody(error))
  for (const [name, value] of [
    ['Content-Type', 'application/json'],
    ['Content-Length', String(Buffer.byteLength(text))],
    ['Cache-Control', 'no-store'],
  ] as const) {
    res.setHeader(name, value)
  }
  res.statusCode = error.status
  res.end(text)
}
