import type { Logger } from 'pino'
import { cookieHeader } from '../../http1/header-fields.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { Session } from '../../sessions/session-cookies.ts'
import { type Access, type AdminGrant, actorName, isHttps } from '../api/access.ts'
import { ApiError } from '../api/api-error.ts'
import { readQuery, refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type * as json from '../api/types.ts'

export interface SessionParts {
  readonly access: Access
  readonly trustedProxies: TrustedProxies
  readonly logger: Logger
}

/** POST, GET and DELETE session: for browsers, which keep a cookie instead of the token. */
export function* sessionEndpoints({ access, trustedProxies, logger }: SessionParts): Generator<ApiRoute> {
  yield {
    method: 'POST',
    path: 'session',
    isOpen: true,
    handle: ({ http, query, body }) => {
      readQuery(query, [])
      const { token, actor } = readLogin(body)
      const grant = access.grantOf(http, token)
      const { session, cookie } = grant.sessions.open(actor, isHttps(http, trustedProxies))
      logger.info({ event: 'admin_session_opened', actor, read_only: grant.isReadOnly }, 'a session of the admin API was opened')
      const opened: json.NewSession = { csrf_token: grant.sessions.csrfToken(session), ...shown(session, grant) }
      return { status: 200, json: opened, headers: ['Set-Cookie', cookie] }
    },
  }
  yield {
    method: 'GET',
    path: 'session',
    handle: ({ http, query }) => {
      readQuery(query, [])
      const found = access.findSession(cookieHeader(http.rawHeaders))
      if (found === undefined) throw new ApiError('unauthorized', 'there is no session')
      return { status: 200, json: shown(found.session, found.grant) }
    },
  }
  yield {
    method: 'DELETE',
    path: 'session',
    isForReaders: true,
    handle: ({ http, query }) => {
      readQuery(query, [])
      return { status: 204, headers: ['Set-Cookie', access.closeSessions(cookieHeader(http.rawHeaders))] }
    },
  }
}

function shown({ expiresAtS }: Session, { isReadOnly }: AdminGrant): json.SessionJson {
  return { expires_at: new Date(expiresAtS * 1000).toISOString(), read_only: isReadOnly }
}

function readLogin(body: Readonly<Record<string, unknown>>): { token: string; actor: string } {
  refuseUnknown<json.SessionRequest>(body, ['token', 'actor'])
  const { token, actor = '' } = body
  if (typeof token !== 'string') throw new ApiError('bad_request', 'token: expected the admin token')
  if (typeof actor !== 'string') throw new ApiError('bad_request', 'actor: expected a text')
  return { token, actor: actorName(actor) }
}
