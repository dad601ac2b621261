import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto'
import { DEBUG_COOKIE, type Logouts, SessionCookies } from './session-cookies.ts'

export const DEBUG_SESSION_S = 15 * 60
const ATTRIBUTES = 'Path=/; HttpOnly; Secure; SameSite=Strict'

/** Debug sessions, which only clients that know the secret can open. */
export class DebugSessions {
  readonly #secretDigest: Buffer
  readonly #cookies: SessionCookies

  constructor(secret: string, wallMs: () => number, logouts: Logouts) {
    const bytes = Buffer.from(secret, 'utf8')
    this.#secretDigest = sha256(bytes)
    const key = Buffer.from(hkdfSync('sha256', bytes, '', 'edge debug session cookie', 32))
    this.#cookies = new SessionCookies({ name: DEBUG_COOKIE, key, lifetimeS: DEBUG_SESSION_S, wallMs, logouts })
  }

  /** Compares digests, so that the time taken reveals neither the secret's content nor its length. */
  isSecret(header: string | undefined): boolean {
    return timingSafeEqual(sha256(Buffer.from(header ?? '', 'latin1')), this.#secretDigest)
  }

  /** Opens a session and returns its Set-Cookie value. */
  open(): string {
    return `${DEBUG_COOKIE}=${this.#cookies.open().value}; Max-Age=${DEBUG_SESSION_S}; ${ATTRIBUTES}`
  }

  isActive(cookieHeader: string | undefined): boolean {
    return this.#cookies.find(cookieHeader).length > 0
  }

  /** Ends all sessions of the header. Returns the Set-Cookie value that clears the cookie. */
  close(cookieHeader: string | undefined): string {
    for (const session of this.#cookies.find(cookieHeader)) this.#cookies.close(session)
    return `${DEBUG_COOKIE}=; Max-Age=0; ${ATTRIBUTES}`
  }
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
