import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { cookieHeader, fieldValue } from '../../http1/header-fields.ts'
import { isSecured } from '../../listen/secured-socket.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { AdminSessions } from '../../sessions/admin-sessions.ts'
import type { Session } from '../../sessions/session-cookies.ts'
import type { WrongSecrets } from '../../sessions/wrong-secrets.ts'
import { parseAddress } from '../../text/address.ts'
import { ApiError } from './api-error.ts'

/** Number of wrong tokens from one peer within a minute beyond which nothing is logged. */
const MAX_WRONG_TOKENS = 10

/** A token, the sessions that were opened with it, and what both are good for. */
export interface AdminGrant {
  readonly token: AdminToken
  readonly sessions: AdminSessions
  /** Whether it only allows to look. */
  readonly isReadOnly: boolean
}

/** Who asks, and by which grant. */
export interface Asker {
  readonly actor: string
  readonly isReadOnly: boolean
}

export interface AccessParts {
  /** One for `EDGE_ADMIN_TOKEN`, and one for `EDGE_ADMIN_READ_TOKEN` if it is set. */
  readonly grants: readonly AdminGrant[]
  readonly trustedProxies: TrustedProxies
  readonly wrongTokens: WrongSecrets
  readonly logger: Logger
  readonly nowMs: () => number
}

/** Decides who may use the admin API: whoever sends a token in the header field, or the cookie of a session. A token in a URL is never accepted. */
export class Access {
  readonly #parts: AccessParts

  constructor(parts: AccessParts) {
    this.#parts = parts
  }

  /** Returns who asks, and throws if they have no access. A request without a token is not a guess, so it is neither counted nor logged. */
  check(req: IncomingMessage): Asker {
    const authorization = fieldValue(req.rawHeaders, 'authorization')
    if (authorization === undefined) return this.#checkSession(req)
    const token = typeof authorization === 'string' ? bearerTokenOf(authorization) : undefined
    const { isReadOnly } = this.grantOf(req, token)
    return { actor: actorOf(req), isReadOnly }
  }

  /** Returns whether a request that was allowed would still be allowed, because its session may have ended. */
  isLasting({ rawHeaders }: IncomingMessage): boolean {
    return fieldValue(rawHeaders, 'authorization') !== undefined || this.findSession(cookieHeader(rawHeaders)) !== undefined
  }

  /** Returns what a token is good for, and throws if it is wrong. A right one always passes, however many wrong ones came before. */
  grantOf(req: IncomingMessage, token: string | undefined): AdminGrant {
    const grant = token === undefined ? undefined : this.#parts.grants.find((one) => one.token.is(token))
    if (grant === undefined) throw this.#wrong(req)
    return grant
  }

  /** Returns the session of a cookie, with the grant that it was opened by. */
  findSession(cookies: string | undefined): { readonly session: Session; readonly grant: AdminGrant } | undefined {
    for (const grant of this.#parts.grants) {
      const session = grant.sessions.find(cookies)
      if (session !== undefined) return { session, grant }
    }
    return undefined
  }

  /** Ends all sessions of a cookie header. Returns the Set-Cookie value that clears the cookie. */
  closeSessions(cookies: string | undefined): string {
    return this.#parts.grants.map(({ sessions }) => sessions.close(cookies))[0]!
  }

  #checkSession(req: IncomingMessage): Asker {
    const { trustedProxies } = this.#parts
    const found = this.findSession(cookieHeader(req.rawHeaders))
    if (found === undefined) throw new ApiError('unauthorized', 'send the admin token as Authorization: Bearer TOKEN')
    const { session, grant } = found
    const asker = { actor: session.content, isReadOnly: grant.isReadOnly }
    if (req.method === 'GET') return asker
    const csrfToken = fieldValue(req.rawHeaders, 'x-edge-csrf')
    if (typeof csrfToken !== 'string' || !grant.sessions.isCsrfToken(session, csrfToken))
      throw new ApiError('csrf', 'send the csrf_token of the session as X-Edge-CSRF')
    if (!isSameOrigin(req, trustedProxies))
      throw new ApiError('csrf', 'the request comes from a page on another host; open the page at the address of the admin port')
    return asker
  }

  #wrong(req: IncomingMessage): ApiError {
    const { wrongTokens, logger, nowMs } = this.#parts
    const count = wrongTokens.add(req.socket.remoteAddress, nowMs())
    if (count > MAX_WRONG_TOKENS)
      return new ApiError(
        'too_many_attempts',
        'the admin token is wrong, and this address has sent too many wrong tokens: wait before you try again',
      )
    logger.warn({ event: 'admin_refused' }, 'a request to the admin API was refused: wrong token')
    return new ApiError('unauthorized', 'the admin token is wrong')
  }
}

const MAX_CHARACTERS = 128
/** Decodes header fields, which Node provides as latin1 strings. */
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** Returns who asks according to the `X-Edge-Actor` field, or `unknown` without one. */
export function actorOf({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): string {
  const value = fieldValue(rawHeaders, 'x-edge-actor')
  if (typeof value === 'symbol') throw new ApiError('bad_request', 'X-Edge-Actor is sent more than once')
  return actorName(value === undefined ? '' : decoded(value))
}

/** Returns a name that logs, terminals and pages can show: one without control characters or characters that hide or reorder others, and not too long. */
export function actorName(text: string): string {
  const shown = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').trim()
  return [...shown.slice(0, 2 * MAX_CHARACTERS)].slice(0, MAX_CHARACTERS).join('') || 'unknown'
}

/** Decodes UTF-8, and leaves other bytes as the latin1 string that Node provides. */
function decoded(value: string): string {
  try {
    return UTF_8.decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}

function bearerTokenOf(authorization: string): string | undefined {
  return /^bearer +(\S+)$/i.exec(authorization)?.[1]
}

/** A bearer token of operators, compared in constant time. */
export class AdminToken {
  readonly #digest: Buffer

  constructor(token: string) {
    this.#digest = digestOf(token)
  }

  is(token: string): boolean {
    return timingSafeEqual(digestOf(token), this.#digest)
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** Returns whether the browser's request came over https, to this port or to a trusted proxy that reports it. */
export function isHttps(req: IncomingMessage, trustedProxies: TrustedProxies): boolean {
  return isSecured(req.socket) || forwarded(req, 'x-forwarded-proto', trustedProxies)?.toLowerCase() === 'https'
}

/** Returns whether a request comes from a page of this host. A request without an Origin does not come from another site's page. */
function isSameOrigin(req: IncomingMessage, trustedProxies: TrustedProxies): boolean {
  const origin = fieldValue(req.rawHeaders, 'origin')
  if (origin === undefined) return true
  const host = forwarded(req, 'x-forwarded-host', trustedProxies) ?? req.headers.host
  if (typeof origin !== 'string' || host === undefined) return false
  try {
    const { protocol, host: named } = new URL(origin)
    // Parsing the host with the origin's scheme drops that scheme's default port.
    return named !== '' && new URL(`${protocol}//${host}`).host === named
  } catch {
    return false
  }
}

/** Returns what a trusted proxy reports about the request that it received. Only the first of several values counts. */
function forwarded(req: IncomingMessage, name: string, trustedProxies: TrustedProxies): string | undefined {
  const peer = parseAddress(req.socket.remoteAddress ?? '')
  if (peer === undefined || !trustedProxies.includes(peer)) return undefined
  const value = fieldValue(req.rawHeaders, name)
  return typeof value === 'string' ? value.split(',', 1)[0]!.trim() : undefined
}
