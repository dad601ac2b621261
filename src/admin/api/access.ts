import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { cookieHeader, fieldValue } from '../../http/raw-headers.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { WrongSecrets } from '../wrong-secrets.ts'
import { actorOf } from './actor.ts'
import type { AdminToken } from './admin-token.ts'
import { ApiError } from './api-error.ts'
import type { AdminSessions } from './session/admin-sessions.ts'
import { isSameOrigin } from './session/request-origin.ts'

/** Wrong tokens of one peer in a minute: beyond them nothing is logged. */
const MAX_WRONG_TOKENS = 10

export interface AccessParts {
  readonly token: AdminToken
  readonly sessions: AdminSessions
  readonly trustedProxies: TrustedProxies
  readonly wrongTokens: WrongSecrets
  readonly logger: Logger
  readonly nowMs: () => number
}

/** Who may use the admin API: whoever sends the token in the header field, or the cookie of a session; never in a URL. */
export class Access {
  readonly #parts: AccessParts

  constructor(parts: AccessParts) {
    this.#parts = parts
  }

  /** Returns who asks. Throws where they may not. Requests without a token guess nothing, and are neither counted nor logged. */
  check(req: IncomingMessage): string {
    const authorization = fieldValue(req.rawHeaders, 'authorization')
    if (authorization === undefined) return this.#checkSession(req)
    if (typeof authorization !== 'string' || !this.#parts.token.isIn(authorization)) throw this.#wrong(req)
    return actorOf(req)
  }

  /** Whether a request that was allowed would still be: its session may have ended. */
  isLasting({ rawHeaders }: IncomingMessage): boolean {
    return fieldValue(rawHeaders, 'authorization') !== undefined || this.#parts.sessions.find(cookieHeader(rawHeaders)) !== undefined
  }

  /** A token that came in a body. The right one always passes, however many wrong ones came before. */
  checkToken(req: IncomingMessage, token: string): void {
    if (!this.#parts.token.is(token)) throw this.#wrong(req)
  }

  #checkSession(req: IncomingMessage): string {
    const { sessions, trustedProxies } = this.#parts
    const session = sessions.find(cookieHeader(req.rawHeaders))
    if (session === undefined) throw new ApiError('unauthorized', 'send the admin token as Authorization: Bearer TOKEN')
    if (req.method === 'GET') return session.content
    const csrfToken = fieldValue(req.rawHeaders, 'x-edge-csrf')
    if (typeof csrfToken !== 'string' || !sessions.isCsrfToken(session, csrfToken))
      throw new ApiError('csrf', 'send the csrf_token of the session as X-Edge-CSRF')
    if (!isSameOrigin(req, trustedProxies))
      throw new ApiError('csrf', 'the request comes from a page of another host; open the page at the address of the admin port')
    return session.content
  }

  #wrong(req: IncomingMessage): ApiError {
    const { wrongTokens, logger, nowMs } = this.#parts
    const count = wrongTokens.add(req.socket.remoteAddress, nowMs())
    if (count > MAX_WRONG_TOKENS)
      return new ApiError(
        'too_many_attempts',
        'wrong admin token, and too many wrong ones came from this address: wait a while before the next try',
      )
    logger.warn({ event: 'admin_refused' }, 'a request to the admin API was refused: its token is wrong')
    return new ApiError('unauthorized', 'the admin token is wrong')
  }
}
