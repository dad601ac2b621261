import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { ADMIN_COOKIE, type Logouts, type Session, SessionCookies } from './session-cookies.ts'

/** Sessions last a working day. */
export const ADMIN_SESSION_S = 8 * 3600
const ATTRIBUTES = 'Path=/admin/v1/; HttpOnly; SameSite=Strict'

/** Sessions of browsers, opened with a token so that the page need not keep it. A session's content is the name of its actor. */
export class AdminSessions {
  readonly #cookies: SessionCookies
  readonly #csrfKey: Buffer

  constructor(token: string, wallMs: () => number, logouts: Logouts) {
    this.#cookies = new SessionCookies({ name: ADMIN_COOKIE, key: keyOf(token, 'cookie'), lifetimeS: ADMIN_SESSION_S, wallMs, logouts })
    this.#csrfKey = keyOf(token, 'csrf')
  }

  /** Returns a new session, and the Set-Cookie value for it. */
  open(actor: string, isHttps: boolean): { session: Session; cookie: string } {
    const { session, value } = this.#cookies.open(actor)
    return { session, cookie: `${ADMIN_COOKIE}=${value}; Max-Age=${ADMIN_SESSION_S}; ${ATTRIBUTES}${isHttps ? '; Secure' : ''}` }
  }

  find(cookieHeader: string | undefined): Session | undefined {
    return this.#cookies.find(cookieHeader)[0]
  }

  /** Ends all sessions of the header. Returns the Set-Cookie value that clears the cookie. */
  close(cookieHeader: string | undefined): string {
    for (const session of this.#cookies.find(cookieHeader)) this.#cookies.close(session)
    return `${ADMIN_COOKIE}=; Max-Age=0; ${ATTRIBUTES}`
  }

  /**
   * Returns the token that a page must send with every change. Another site can make a browser send the cookie but cannot know this token, and neither can
   * a thief of the cookie: only the response to the login contains it.
   */
  csrfToken({ id }: Session): string {
    return createHmac('sha256', this.#csrfKey).update(id).digest('base64url')
  }

  isCsrfToken(session: Session, text: string): boolean {
    return timingSafeEqual(sha256(text), sha256(this.csrfToken(session)))
  }
}

function keyOf(token: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', `edge admin session ${purpose}`, 32))
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
