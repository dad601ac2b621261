import type { Logger } from 'pino'
import { cookieHeader } from '../../http1/header-fields.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { AdminSessions } from '../../sessions/admin-sessions.ts'
import type { Session } from '../../sessions/session-cookies.ts'
import { type Access, actorName, isHttps } from '../api/access.ts'
import { ApiError } from '../api/api-error.ts'
import { readQuery, refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type * as json from '../api/types.ts'

export interface SessionParts {
  readonly access: Access
  readonly sessions: AdminSessions
  readonly trustedProxies: TrustedProxies
  readonly logger: Logger
}

/** POST, GET and DELETE session: for browsers, which keep a cookie instead of the token. */
export function* sessionEndpoints({ access, sessions, trustedProxies, logger }: SessionParts): Generator<ApiRoute> {
  yield {
    method: 'POST',
    path: 'session',
    isOpen: true,
    handle: ({ http, query, body }) => {
      readQuery(query, [])
      const { token, actor } = readLogin(body)
      access.checkToken(http, token)
      const { session, cookie } = sessions.open(actor, isHttps(http, trustedProxies))
      logger.info({ event: 'admin_session_opened', actor }, 'a session of the admin API was opened')
      const opened: json.NewSession = { csrf_token: sessions.csrfToken(session), ...shown(session) }
      return { status: 200, json: opened, headers: ['Set-Cookie', cookie] }
    },
  }
  yield {
    method: 'GET',
    path: 'session',
    handle: ({ http, query }) => {
      readQuery(query, [])
      const session = sessions.find(cookieHeader(http.rawHeaders))
      if (session === undefined) throw new ApiError('unauthorized', 'there is no session')
      return { status: 200, json: shown(session) }
    },
  }
  yield {
    method: 'DELETE',
    path: 'session',
    handle: ({ http, query }) => {
      readQuery(query, [])
      return { status: 204, headers: ['Set-Cookie', sessions.close(cookieHeader(http.rawHeaders))] }
    },
  }
}

function shown({ expiresAtS }: Session): json.SessionJson {
  return { expires_at: new Date(expiresAtS * 1000).toISOString() }
}

function readLogin(body: Readonly<Record<string, unknown>>): { token: string; actor: string } {
  refuseUnknown<json.SessionRequest>(body, ['token', 'actor'])
  const { token, actor = '' } = body
  if (typeof token !== 'string') throw new ApiError('bad_request', 'token: expected the admin token')
  if (typeof actor !== 'string') throw new ApiError('bad_request', 'actor: expected a text')
  return { token, actor: actorName(actor) }
}
