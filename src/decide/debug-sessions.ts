import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto'
import { type Logouts, SessionCookies } from '../session-cookies.ts'

const COOKIE_NAME = 'edge_dbg'
export const DEBUG_SESSION_S = 15 * 60
const ATTRIBUTES = 'Path=/; HttpOnly; Secure; SameSite=Strict'

/** Debug sessions, for those who know the secret. */
export class DebugSessions {
  readonly #secretDigest: Buffer
  readonly #cookies: SessionCookies

  constructor(secret: string, wallMs: () => number, logouts: Logouts) {
    const bytes = Buffer.from(secret, 'utf8')
    this.#secretDigest = sha256(bytes)
    const key = Buffer.from(hkdfSync('sha256', bytes, '', 'edge debug session cookie', 32))
    this.#cookies = new SessionCookies({ name: COOKIE_NAME, key, lifetimeS: DEBUG_SESSION_S, wallMs, logouts })
  }

  /** Compares digests, so that neither content nor length shows in the time it takes. */
  isSecret(header: string | undefined): boolean {
    return timingSafeEqual(sha256(Buffer.from(header ?? '', 'latin1')), this.#secretDigest)
  }

  /** The Set-Cookie value of a new session. */
  open(): string {
    return `${COOKIE_NAME}=${this.#cookies.open().value}; Max-Age=${DEBUG_SESSION_S}; ${ATTRIBUTES}`
  }

  isActive(cookieHeader: string | undefined): boolean {
    return this.#cookies.find(cookieHeader).length > 0
  }

  /** Ends the sessions that the cookie names. Returns the Set-Cookie value that clears it. */
  close(cookieHeader: string | undefined): string {
    for (const session of this.#cookies.find(cookieHeader)) this.#cookies.close(session)
    return `${COOKIE_NAME}=; Max-Age=0; ${ATTRIBUTES}`
  }
}

/** A Cookie header without the session's cookie; undefined when nothing else is in it. */
export function withoutDebugCookie(cookieHeader: string): string | undefined {
  if (!cookieHeader.includes(COOKIE_NAME)) return cookieHeader
  const kept = cookieHeader.split(';').filter((pair) => pair.slice(0, pair.indexOf('=')).trim() !== COOKIE_NAME)
  return kept.length === 0 ? undefined : kept.join(';').trim()
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
